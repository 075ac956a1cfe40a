// Connects the interface Peers with the messages of one MPI rank.
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include <truestep/distributed/mpi_comm.hpp>

#include "mpi_mail.hpp"
#include "mpi_ranks.hpp"
#include "mpi_watch.hpp"

namespace truestep::distributed {
namespace {

class AwaitedMessage final : public IncomingMessage {
  public:
    AwaitedMessage(std::shared_ptr<MpiMail> mail, std::shared_ptr<MpiArrival> arrival)
        : mail_(std::move(mail)), arrival_(std::move(arrival)) {}
    AwaitedMessage(const AwaitedMessage&) = delete;
    AwaitedMessage& operator=(const AwaitedMessage&) = delete;
    ~AwaitedMessage() override { mail_->drop(*arrival_); }

    const std::byte* wait(std::size_t bytes) override {
        if (bytes > arrival_->awaited.bytes)
            throw std::invalid_argument("a message of " + std::to_string(arrival_->awaited.bytes) +
                                        " bytes has no first " + std::to_string(bytes));
        mail_->wait(*arrival_, bytes);
        return arrival_->buffer.data();
    }

  private:
    std::shared_ptr<MpiMail> mail_;
    std::shared_ptr<MpiArrival> arrival_;
};

class MpiPeers final : public Peers {
  public:
    MpiPeers(MPI_Comm ranks, MpiOptions options) : mail_(std::make_shared<MpiMail>(ranks, options)) {}
    MpiPeers(const MpiPeers&) = delete;
    MpiPeers& operator=(const MpiPeers&) = delete;
    ~MpiPeers() override {
        if (!mpi_runs())
            return;
        mail_->leave(std::uncaught_exceptions() > exceptions_ ? "an error has ended it" : "");
        mail_->finish();
    }

    [[nodiscard]] int rank() const override { return mail_->rank(); }
    [[nodiscard]] int size() const override { return mail_->size(); }
    [[nodiscard]] std::string name() const override { return "mpi"; }

    void send(Traffic traffic, int peer, std::uint64_t number, std::shared_ptr<const void> message,
              std::size_t bytes) override {
        mail_->check(peer);
        mail_->send(peer, {.traffic = traffic, .number = number, .bytes = bytes}, std::move(message));
    }

    [[nodiscard]] std::unique_ptr<IncomingMessage> receive(Traffic traffic, int peer, std::uint64_t number,
                                                           std::size_t bytes) override {
        mail_->check(peer);
        return std::make_unique<AwaitedMessage>(
            mail_, mail_->ask_for(peer, {.traffic = traffic, .number = number, .bytes = bytes}));
    }

    void must_go_on(Traffic traffic, int peer, std::uint64_t number) override {
        mail_->must_go_on(peer, {.traffic = traffic, .number = number, .bytes = 0});
    }
    void progress() override { mail_->progress(); }
    void leave(const std::string& reason) noexcept override { mail_->leave(reason); }

  private:
    std::shared_ptr<MpiMail> mail_;
    int exceptions_ = std::uncaught_exceptions();
};

} // namespace

std::unique_ptr<Peers> make_mpi_peers(MPI_Comm ranks, MpiOptions options) {
    check_mpi_runs();
    return std::make_unique<MpiPeers>(ranks, options);
}

std::unique_ptr<Peers> make_mpi_peers(MpiOptions options) {
    return make_mpi_peers(MPI_COMM_WORLD, options);
}

} // namespace truestep::distributed
