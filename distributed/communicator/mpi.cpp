// Runs exchanges on MPI's nonblocking collectives, and starts and ends MPI.
#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <utility>

#include <truestep/distributed/mpi_comm.hpp>
#include <truestep/problem/timeline.hpp>

#include "mpi_arguments.hpp"
#include "mpi_ranks.hpp"
#include "mpi_watch.hpp"
#include "stretches.hpp"
#include <truestep/distributed/missing.hpp>

namespace truestep::distributed {
namespace {

std::size_t total(Communicator::Sizes sizes) {
    return std::reduce(sizes.begin(), sizes.end());
}

class Transfer;

/// The data that a rank's communicator and its exchanges share.
class Rank {
  public:
    Rank(MPI_Comm ranks, MpiOptions options)
        : options_(options), ranks_(duplicate_ranks(ranks, options)), watch_(ranks_, options.timeout) {}
    Rank(const Rank&) = delete;
    Rank& operator=(const Rank&) = delete;

    /// Does not free during an error: the others may never come to free theirs.
    ~Rank() {
        if (mpi_runs() && std::uncaught_exceptions() == 0)
            MPI_Comm_free(&ranks_);
    }

    [[nodiscard]] MPI_Comm ranks() const { return ranks_; }
    [[nodiscard]] MpiWatch& watch() { return watch_; }
    [[nodiscard]] const MpiOptions& options() const { return options_; }
    [[nodiscard]] std::vector<Transfer*>& pending() { return pending_; }

    /// How many exchanges have been started.
    [[nodiscard]] std::uint64_t started() const { return started_; }
    [[nodiscard]] std::uint64_t next_number() { return started_++; }

    void check(int code, Traffic traffic) {
        if (code != MPI_SUCCESS)
            watch_.end("MPI reports in " + exchange_text(traffic) + ": " + mpi_error_text(code));
    }

    [[nodiscard]] std::unique_ptr<MpiArguments> arguments() {
        if (spare_.empty()) {
            spare_.reserve(++made_);
            return std::make_unique<MpiArguments>(static_cast<std::size_t>(watch_.size()));
        }
        auto taken = std::move(spare_.back());
        spare_.pop_back();
        return taken;
    }
    void give_back(std::unique_ptr<MpiArguments> given) noexcept {
        given->clear();
        spare_.push_back(std::move(given));
    }

    std::vector<Stretch> to;   ///< for an exchange that is being started
    std::vector<Stretch> from; ///< likewise

  private:
    MpiOptions options_;
    MPI_Comm ranks_;
    MpiWatch watch_;
    std::vector<Transfer*> pending_;
    std::uint64_t started_ = 0;
    std::vector<std::unique_ptr<MpiArguments>> spare_;
    std::size_t made_ = 0; ///< room is reserved for all of them
};

class Transfer final : public Exchange {
  public:
    Transfer(std::shared_ptr<Rank> rank, Traffic traffic)
        : rank_(std::move(rank)), traffic_(traffic), number_(rank_->next_number()),
          arguments_(rank_->arguments()) {
        rank_->pending().push_back(this);
    }
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    /// MPI may still write into the buffers, and cannot be stopped: the only way out is to end.
    ~Transfer() override {
        std::erase(rank_->pending(), this);
        if (waited_) {
            rank_->give_back(std::move(arguments_));
            return;
        }
        const bool by_error = std::uncaught_exceptions() > 0;
        rank_->watch().end(by_error ? "an error left " + exchange_text(traffic_) + " unfinished"
                                    : exchange_text(traffic_) + " was never waited for");
    }

    /// MPI sends no message for an empty part.
    void all_to_all(const void* send, Communicator::Stretches to, void* receive,
                    Communicator::Stretches from) {
        const std::size_t largest = rank_->options().largest_count;
        static const std::byte nothing{};
        static std::byte nowhere{};
        for (std::size_t peer = 0; peer < from.size(); ++peer)
            count_received(peer, from[peer].size);
        MpiParts& sent = arguments_->sent;
        MpiParts& received = arguments_->received;
        const std::size_t first_sent = sent.describe(to, largest);
        const std::size_t first_received = received.describe(from, largest);
        send = sent.any() ? static_cast<const std::byte*>(send) + first_sent : &nothing;
        receive = received.any() ? static_cast<std::byte*>(receive) + first_received : &nowhere;
        check(MPI_Ialltoallw(send, sent.counts.data(), sent.displacements.data(), sent.types.data(),
                             receive, received.counts.data(), received.displacements.data(),
                             received.types.data(), rank_->ranks(), new_request()));
    }

    /// MPI wants either all ranks' parts in place or none, so each rank copies its own there. The
    /// sizes are the same on all ranks, and so is their choice.
    void all_gather(const void* send, void* receive, Communicator::Sizes sizes) {
        const auto me = static_cast<std::size_t>(rank_->watch().rank());
        for (std::size_t peer = 0; peer < sizes.size(); ++peer)
            count_received(peer, sizes[peer]);
        auto* const bytes = static_cast<std::byte*>(receive);
        std::byte* const own = bytes + total(sizes.first(me));
        if (sizes[me] > 0 && send != own)
            std::memcpy(own, send, sizes[me]);
        if (total(sizes) <= rank_->options().largest_count) {
            describe(sizes, 1);
            check(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, receive, arguments_->received.counts.data(),
                                  arguments_->received.displacements.data(), MPI_BYTE, rank_->ranks(),
                                  new_request()));
            return;
        }
        in_pieces(sizes, 1, [&](int root, std::size_t begin, int count) {
            check(MPI_Ibcast(bytes + begin, count, MPI_BYTE, root, rank_->ranks(), new_request()));
        });
    }

    void reduce_scatter(const float* send, float* receive, Communicator::Sizes sizes) {
        received_ = sizes[static_cast<std::size_t>(rank_->watch().rank())];
        if (total(sizes) / sizeof(float) <= rank_->options().largest_count) {
            describe(sizes, sizeof(float));
            check(MPI_Ireduce_scatter(send, receive, arguments_->received.counts.data(), MPI_FLOAT, MPI_SUM,
                                      rank_->ranks(), new_request()));
            return;
        }
        float* free = receive;
        in_pieces(sizes, sizeof(float), [&](int root, std::size_t begin, int count) {
            check(MPI_Ireduce(send + begin, free, count, MPI_FLOAT, MPI_SUM, root, rank_->ranks(),
                              new_request()));
            if (root == rank_->watch().rank())
                free += count;
        });
    }

    void wait() override {
        problem::Span span(name(traffic_), rank_->watch().rank());
        span.set_bytes(received_);
        Patience patience(rank_->options().timeout);
        while (!test())
            if (patience.pause()) {
                const MpiWatch::Wait wait{.traffic = traffic_,
                                          .number = number_,
                                          .started = rank_->started(),
                                          .since = patience.waited()};
                rank_->watch().answer(wait);
                if (patience.over())
                    rank_->watch().time_out(wait, exchange_text(traffic_));
            }
        waited_ = true;
    }

    bool test() {
        int done = 0;
        check(MPI_Testall(static_cast<int>(arguments_->requests.size()), arguments_->requests.data(), &done,
                          MPI_STATUSES_IGNORE));
        if (done == 0)
            return false;
        arguments_->requests.clear();
        std::erase(rank_->pending(), this);
        return true;
    }

  private:
    void check(int code) { rank_->check(code, traffic_); }

    void count_received(std::size_t peer, std::size_t bytes) {
        if (static_cast<int>(peer) != rank_->watch().rank())
            received_ += bytes;
    }

    MPI_Request* new_request() { return &arguments_->requests.emplace_back(MPI_REQUEST_NULL); }

    void describe(Communicator::Sizes sizes, std::size_t unit) {
        std::size_t begin = 0;
        for (const std::size_t size : sizes) {
            arguments_->received.counts.push_back(static_cast<int>(size / unit));
            arguments_->received.displacements.push_back(static_cast<int>(begin / unit));
            begin += size;
        }
    }

    /// Sends each rank's part in pieces that fit a count.
    template <class Start>
    void in_pieces(Communicator::Sizes sizes, std::size_t unit, const Start& start) {
        const std::size_t largest = rank_->options().largest_count;
        std::size_t begin = 0;
        for (std::size_t root = 0; root < sizes.size(); ++root) {
            const std::size_t end = begin + sizes[root] / unit;
            for (; begin < end; begin += std::min(largest, end - begin))
                start(static_cast<int>(root), begin, static_cast<int>(std::min(largest, end - begin)));
        }
    }

    std::shared_ptr<Rank> rank_;
    Traffic traffic_;
    std::uint64_t number_;
    std::unique_ptr<MpiArguments> arguments_;
    std::size_t received_ = 0; ///< from others, for the timeline
    bool waited_ = false;
};

class MpiCommunicator final : public Communicator {
  public:
    MpiCommunicator(MPI_Comm ranks, MpiOptions options) : rank_(std::make_shared<Rank>(ranks, options)) {}

    [[nodiscard]] int rank() const override { return rank_->watch().rank(); }
    [[nodiscard]] int size() const override { return rank_->watch().size(); }
    [[nodiscard]] std::string name() const override { return "mpi"; }

    std::unique_ptr<Exchange> start_all_to_all(Traffic traffic, const void* send, Sizes send_sizes,
                                               void* receive, Sizes receive_sizes) override {
        check(send_sizes);
        check(receive_sizes);
        put_stretches(rank_->to, send_sizes);
        put_stretches(rank_->from, receive_sizes);
        return all_to_all(traffic, send, rank_->to, receive, rank_->from);
    }

    std::unique_ptr<Exchange> start_all_to_owners(Traffic traffic, const void* send, Sizes sizes,
                                                  Piece piece, void* receive) override {
        check(sizes);
        put_stretches(rank_->to, sizes, piece);
        const std::size_t received = piece.size_in(sizes[static_cast<std::size_t>(rank())]);
        rank_->from.resize(sizes.size());
        for (std::size_t from = 0; from < sizes.size(); ++from)
            rank_->from[from] = {from * received, received};
        return all_to_all(traffic, send, rank_->to, receive, rank_->from);
    }
    [[nodiscard]] bool sends_pieces() const override { return true; }

    std::unique_ptr<Exchange> start_stretches(Traffic traffic, const void* send, Stretches to,
                                              void* receive, Stretches from) override {
        check(to);
        check(from);
        return all_to_all(traffic, send, to, receive, from);
    }

    std::unique_ptr<Exchange> start_all_gather(Traffic traffic, const void* send, void* receive,
                                               Sizes sizes) override {
        check(sizes);
        auto transfer = std::make_unique<Transfer>(rank_, traffic);
        transfer->all_gather(send, receive, sizes);
        return transfer;
    }

    std::unique_ptr<Exchange> start_reduce_scatter(Traffic traffic, const float* send, float* receive,
                                                   Sizes sizes) override {
        check(sizes);
        auto transfer = std::make_unique<Transfer>(rank_, traffic);
        transfer->reduce_scatter(send, receive, sizes);
        return transfer;
    }

    /// test() removes what is complete from the list.
    void progress() override {
        for (std::size_t i = rank_->pending().size(); i-- > 0;)
            rank_->pending()[i]->test();
    }

    void abort(const std::string& reason) noexcept override { rank_->watch().end(reason); }

  private:
    std::unique_ptr<Exchange> all_to_all(Traffic traffic, const void* send, Stretches to, void* receive,
                                         Stretches from) {
        auto transfer = std::make_unique<Transfer>(rank_, traffic);
        transfer->all_to_all(send, to, receive, from);
        return transfer;
    }

    template <class PerRank>
    void check(PerRank sizes) const {
        if (sizes.size() != static_cast<std::size_t>(size()))
            throw std::invalid_argument("an exchange among " + std::to_string(size()) +
                                        " ranks was given " + std::to_string(sizes.size()) + " sizes");
    }

    std::shared_ptr<Rank> rank_;
};

} // namespace

MpiSession::MpiSession(int& argument_count, char**& arguments) : exceptions_(std::uncaught_exceptions()) {
    int started = 0;
    MPI_Initialized(&started);
    if (started != 0)
        return;
    int level = 0;
    MPI_Init_thread(&argument_count, &arguments, MPI_THREAD_FUNNELED, &level);
    own_ = true;
    if (level < MPI_THREAD_FUNNELED)
        end_mpi("this MPI does not allow threads");
}

MpiSession::~MpiSession() {
    if (!mpi_runs())
        return;
    if (std::uncaught_exceptions() > exceptions_)
        end_mpi(reason_text(rank(), "ends by an error"));
    if (own_)
        MPI_Finalize();
}

int MpiSession::rank() const {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int MpiSession::size() const {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm ranks, MpiOptions options) {
    check_mpi_runs();
    return std::make_unique<MpiCommunicator>(ranks, options);
}

std::unique_ptr<Communicator> make_mpi_communicator(MpiOptions options) {
    return make_mpi_communicator(MPI_COMM_WORLD, options);
}

} // namespace truestep::distributed
