#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <utility>

#include <scape/distributed/mpi_comm.hpp>

#include "missing.hpp"
#include "mpi_ranks.hpp"
#include "mpi_watch.hpp"
#include "stretches.hpp"

namespace scape::distributed {
namespace {

std::size_t total(Communicator::Sizes sizes) {
    return std::reduce(sizes.begin(), sizes.end());
}

class Transfer;

/// What a rank's communicator and its exchanges share.
class Rank {
  public:
    Rank(MPI_Comm ranks, MpiOptions options)
        : options_(options), ranks_(duplicate_ranks(ranks, options)), watch_(ranks_, options.timeout) {}
    Rank(const Rank&) = delete;
    Rank& operator=(const Rank&) = delete;

    /// The others may not come to free theirs when this one is being torn down by an error.
    ~Rank() {
        if (mpi_runs() && std::uncaught_exceptions() == 0)
            MPI_Comm_free(&ranks_);
    }

    [[nodiscard]] MPI_Comm ranks() const { return ranks_; }
    [[nodiscard]] MpiWatch& watch() { return watch_; }
    [[nodiscard]] const MpiOptions& options() const { return options_; }
    [[nodiscard]] std::vector<Transfer*>& pending() { return pending_; }

    void check(int code, const std::string& where) {
        if (code != MPI_SUCCESS)
            watch_.end("MPI reports in " + where + ": " + mpi_error_text(code));
    }

  private:
    MpiOptions options_;
    MPI_Comm ranks_;
    MpiWatch watch_;
    std::vector<Transfer*> pending_;
};

/// The arguments of one all-to-all. MPI reads them until it is complete.
struct Parts {
    std::vector<int> counts;
    std::vector<int> displacements;
    std::vector<MPI_Datatype> types;
    std::vector<MPI_Datatype> own_types;

    Parts() = default;
    Parts(const Parts&) = delete;
    Parts& operator=(const Parts&) = delete;
    ~Parts() {
        if (mpi_runs())
            for (MPI_Datatype& type : own_types)
                MPI_Type_free(&type);
    }

    /// A part that ends beyond what an int can say becomes one element of a type of its own, made of pieces
    /// with displacements of full width. The other side may have it otherwise: the bytes have to match.
    /// Counted from where the first part that is not empty begins, which is returned: what is sent and what
    /// is received may lie in one buffer, and one address for both would tell MPI that all is in place.
    std::size_t describe(Communicator::Stretches parts, std::size_t largest) {
        std::size_t first = 0;
        for (const auto& [begin, size] : parts) {
            if (size > 0 && (!any_ || begin < first))
                first = begin;
            any_ = any_ || size > 0;
        }
        for (const Stretch& part : parts) {
            const std::size_t begin = part.size > 0 ? part.begin - first : 0;
            const std::size_t size = part.size;
            const bool fits = begin + size <= largest;
            counts.push_back(fits ? static_cast<int>(size) : size > 0 ? 1 : 0);
            displacements.push_back(fits ? static_cast<int>(begin) : 0);
            types.push_back(fits || size == 0 ? MPI_BYTE : in_pieces(begin, size, largest));
        }
        return first;
    }
    [[nodiscard]] bool any() const { return any_; }

    MPI_Datatype in_pieces(std::size_t begin, std::size_t size, std::size_t largest) {
        std::vector<int> lengths;
        std::vector<MPI_Aint> places;
        for (std::size_t done = 0; done < size; done += largest) {
            lengths.push_back(static_cast<int>(std::min(largest, size - done)));
            places.push_back(static_cast<MPI_Aint>(begin + done));
        }
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), places.data(), MPI_BYTE,
                                 &type);
        own_types.push_back(type);
        MPI_Type_commit(&type);
        return type;
    }

  private:
    bool any_ = false;
};

class Transfer final : public Exchange {
  public:
    Transfer(std::shared_ptr<Rank> rank, Traffic traffic) : rank_(std::move(rank)), traffic_(traffic) {
        rank_->pending().push_back(this);
    }
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    /// MPI may still write into the buffers, and cannot be told to stop: nothing is left but to end.
    ~Transfer() override {
        std::erase(rank_->pending(), this);
        if (waited_)
            return;
        const bool by_error = std::uncaught_exceptions() > 0;
        rank_->watch().end(by_error ? "an error left " + exchange_text(traffic_) + " unfinished"
                                    : exchange_text(traffic_) + " was never waited for");
    }

    /// Where a part is empty, MPI sends no message.
    void all_to_all(const void* send, Communicator::Stretches to, void* receive,
                    Communicator::Stretches from) {
        const std::size_t largest = rank_->options().largest_count;
        static const std::byte nothing{};
        static std::byte nowhere{};
        const std::size_t first_sent = sent_.describe(to, largest);
        const std::size_t first_received = received_.describe(from, largest);
        send = sent_.any() ? static_cast<const std::byte*>(send) + first_sent : &nothing;
        receive = received_.any() ? static_cast<std::byte*>(receive) + first_received : &nowhere;
        check(MPI_Ialltoallw(send, sent_.counts.data(), sent_.displacements.data(), sent_.types.data(),
                             receive, received_.counts.data(), received_.displacements.data(),
                             received_.types.data(), rank_->ranks(), new_request()));
    }

    /// MPI wants either all ranks' parts in place or none: so each puts its own there. The sizes are the
    /// same on all ranks, and so is the way that they choose.
    void all_gather(const void* send, void* receive, Communicator::Sizes sizes) {
        const auto me = static_cast<std::size_t>(rank_->watch().rank());
        auto* const bytes = static_cast<std::byte*>(receive);
        std::byte* const own = bytes + total(sizes.first(me));
        if (sizes[me] > 0 && send != own)
            std::memcpy(own, send, sizes[me]);
        if (total(sizes) <= rank_->options().largest_count) {
            describe(sizes, 1);
            check(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, receive, received_.counts.data(),
                                  received_.displacements.data(), MPI_BYTE, rank_->ranks(), new_request()));
            return;
        }
        in_pieces(sizes, 1, [&](int root, std::size_t begin, int count) {
            check(MPI_Ibcast(bytes + begin, count, MPI_BYTE, root, rank_->ranks(), new_request()));
        });
    }

    void reduce_scatter(const float* send, float* receive, Communicator::Sizes sizes) {
        if (total(sizes) / sizeof(float) <= rank_->options().largest_count) {
            describe(sizes, sizeof(float));
            check(MPI_Ireduce_scatter(send, receive, received_.counts.data(), MPI_FLOAT, MPI_SUM,
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
        Patience patience(rank_->options().timeout);
        while (!test())
            if (patience.pause()) {
                rank_->watch().answer(traffic_);
                if (patience.over())
                    rank_->watch().time_out(traffic_, exchange_text(traffic_));
            }
        waited_ = true;
    }

    bool test() {
        int done = 0;
        check(
            MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE));
        if (done == 0)
            return false;
        requests_.clear();
        std::erase(rank_->pending(), this);
        return true;
    }

  private:
    void check(int code) { rank_->check(code, exchange_text(traffic_)); }

    MPI_Request* new_request() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

    void describe(Communicator::Sizes sizes, std::size_t unit) {
        std::size_t begin = 0;
        for (const std::size_t size : sizes) {
            received_.counts.push_back(static_cast<int>(size / unit));
            received_.displacements.push_back(static_cast<int>(begin / unit));
            begin += size;
        }
    }

    /// Each rank's part in pieces that a count can say.
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
    Parts sent_;
    Parts received_;
    std::vector<MPI_Request> requests_;
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
        return all_to_all(traffic, send, stretches_of(send_sizes), receive, stretches_of(receive_sizes));
    }

    std::unique_ptr<Exchange> start_all_to_owners(Traffic traffic, const void* send, Sizes sizes,
                                                  Piece piece, void* receive) override {
        check(sizes);
        const std::vector<std::size_t> received(sizes.size(),
                                                piece.size_in(sizes[static_cast<std::size_t>(rank())]));
        return all_to_all(traffic, send, stretches_of(sizes, piece), receive, stretches_of(received));
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

    /// test() takes what is complete off the list.
    void progress() override {
        const auto pending = rank_->pending();
        for (Transfer* transfer : pending)
            transfer->test();
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

} // namespace scape::distributed
