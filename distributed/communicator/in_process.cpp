// Exchanges data between ranks that are threads, by pointers into the senders' buffers.
#include <truestep/distributed/in_process.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <string>

#include <truestep/problem/timeline.hpp>
#include <truestep/problem/tunable.hpp>

#include "in_process_group.hpp"
#include "rank_threads.hpp"
#include "stretches.hpp"

namespace truestep::distributed {
namespace in_process {
namespace {

/// Skips empty parts, which come with null pointers: memcpy would be undefined.
void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0 && to != from)
        std::memcpy(to, from, bytes);
}

class Transfer;

/// The data that a rank's communicator and its exchanges share.
struct Rank {
    std::shared_ptr<Group> group;
    int rank;
    std::uint64_t started = 0;
    std::vector<Transfer*> untaken{};
    std::vector<Stretch> to{}; ///< for an exchange that is being started
    SpareStretches spare{};
    std::vector<Meeting*> done{}; ///< to be given back
    std::size_t under_way = 0;
    std::vector<float> sums{};

    void take_ready();
    /// Reserves room, so that nothing has to grow when exchanges end, or come in another order.
    void one_more() {
        ++under_way;
        untaken.reserve(under_way);
        done.reserve(done.size() + under_way);
    }
};

class Transfer final : public Exchange {
  public:
    Transfer(std::shared_ptr<Rank> rank, Operation operation, Traffic traffic, std::byte* receive)
        : rank_(std::move(rank)), receive_(receive), from_(rank_->spare.take(index(group().size()))),
          operation_(operation), traffic_(traffic) {}

    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    /// The part that goes to each rank, and the place where each rank's part is received. The
    /// caller fills them in before start().
    [[nodiscard]] std::vector<Stretch>& to() { return rank_->to; }
    [[nodiscard]] std::vector<Stretch>& from() { return from_; }

    void start(const void* send) {
        group().throw_if_aborted();
        rank_->one_more();
        meeting_ = group().post(rank_->started++, rank_->rank,
                                {.present = true,
                                 .operation = operation_,
                                 .traffic = traffic_,
                                 .send = static_cast<const std::byte*>(send),
                                 .parts = rank_->to},
                                rank_->done);
        rank_->untaken.push_back(this);
    }

    ~Transfer() override {
        end();
        rank_->spare.give_back(std::move(from_));
    }

    /// Peers may be reading this rank's buffers, so dropping an exchange aborts the group, which
    /// stops them.
    void end() noexcept {
        if (meeting_ == nullptr)
            return;
        std::erase(rank_->untaken, this);
        --rank_->under_way;
        rank_->done.push_back(meeting_);
        if (waited_)
            return;
        const bool by_error = std::uncaught_exceptions() > 0;
        group().abort(
            reason_text(rank_->rank, by_error ? "an error left " + exchange_text(traffic_) + " unfinished"
                                              : exchange_text(traffic_) + " was never waited for"));
    }

    void wait() override {
        if (waited_)
            return;
        problem::Span span(name(traffic_), rank_->rank);
        group().wait(*meeting_, rank_->rank, traffic_, [&] {
            rank_->take_ready();
            return taken_ && meeting_->all_taken();
        });
        if (span.is_on())
            describe(span);
        waited_ = true;
    }

    /// Returns true once this rank has its data.
    bool take_if_ready() {
        if (!meeting_->all_posted())
            return false;
        check();
        group().read_peers([&] {
            switch (operation_) {
            case Operation::all_to_all:
                take_parts(index(rank_->rank));
                break;
            case Operation::all_gather:
                take_parts(0);
                break;
            case Operation::reduce_scatter:
                take_sum();
                break;
            }
        });
        taken_ = true;
        group().take(*meeting_, rank_->rank);
        return true;
    }

  private:
    void describe(problem::Span& span) const {
        std::uint64_t bytes = 0;
        for (std::size_t peer = 0; peer < from_.size(); ++peer)
            bytes += peer == index(rank_->rank) ? 0 : from_[peer].size;
        span.set_bytes(bytes);
        if (meeting_->last != rank_->rank)
            span.set_awaited(meeting_->last);
    }

    [[nodiscard]] Group& group() { return *rank_->group; }
    [[nodiscard]] static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

    /// Each receiver checks that the other ranks have brought what it expects.
    void check() {
        const std::size_t me = index(rank_->rank);
        for (std::size_t peer = 0; peer < meeting_->posts.size(); ++peer) {
            const Post& post = meeting_->posts[peer];
            if (post.operation != operation_ || post.traffic != traffic_)
                refuse(peer, "started " + exchange_text(post.traffic) + " (" +
                                 std::string(name(post.operation)) + ") where rank " + std::to_string(me) +
                                 " started " + exchange_text(traffic_) + " (" +
                                 std::string(name(operation_)) + ")");
            const std::size_t part = operation_ == Operation::all_gather ? 0 : me;
            const std::size_t expected = operation_ == Operation::reduce_scatter ? me : peer;
            const std::size_t sent = post.size(part);
            const std::size_t awaited = from_[expected].size;
            if (sent != awaited)
                refuse(peer, "sends " + std::to_string(sent) + " bytes in " + exchange_text(traffic_) +
                                 " where rank " + std::to_string(me) + " awaits " +
                                 std::to_string(awaited));
        }
    }

    [[noreturn]] void refuse(std::size_t peer, const std::string& what) {
        group().abort("rank " + std::to_string(peer) + " " + what);
        group().throw_aborted();
    }

    /// Each rank begins with the part after its own, so that not all read one sender's memory at once.
    void take_parts(std::size_t part) {
        const std::size_t ranks = meeting_->posts.size();
        for (std::size_t turn = 0; turn < ranks; ++turn) {
            const std::size_t peer = (index(rank_->rank) + turn) % ranks;
            const Post& post = meeting_->posts[peer];
            copy(receive_ + from_[peer].begin, post.begin(part), from_[peer].size);
        }
    }

    /// Adds as a tree whose partners are half of the ranks apart. The order is fixed, but not
    /// ascending, so that no caller comes to rely on that.
    void take_sum() {
        constexpr std::size_t block = problem::tunable<std::size_t>("sum_block");
        const std::size_t me = index(rank_->rank);
        const std::size_t ranks = meeting_->posts.size();
        const std::size_t count = from_[me].size / sizeof(float);
        const std::size_t width = std::max<std::size_t>(1, std::bit_ceil(ranks) / 2);
        std::vector<float>& sums = rank_->sums;
        sums.resize(width * block);
        auto* const receive = reinterpret_cast<float*>(receive_);
        const auto values_of = [&](std::size_t peer) {
            const Post& post = meeting_->posts[peer];
            return reinterpret_cast<const float*>(post.begin(me));
        };
        for (std::size_t begin = 0; begin < count; begin += block) {
            const std::size_t values = std::min(block, count - begin);
            for (std::size_t lane = 0; lane < width; ++lane) {
                float* const sum = &sums[lane * block];
                std::copy_n(values_of(lane) + begin, values, sum);
                if (lane + width < ranks)
                    add(sum, values_of(lane + width) + begin, values);
            }
            for (std::size_t apart = width / 2; apart > 0; apart /= 2)
                for (std::size_t lane = 0; lane < apart; ++lane)
                    add(&sums[lane * block], &sums[(lane + apart) * block], values);
            std::copy_n(sums.data(), values, receive + begin);
        }
    }

    static void add(float* sum, const float* values, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            sum[i] += values[i];
    }

    std::shared_ptr<Rank> rank_;
    std::byte* receive_;
    std::vector<Stretch> from_; ///< where each part is received
    Operation operation_;
    Traffic traffic_;
    Meeting* meeting_ = nullptr; ///< set once it has been started
    bool taken_ = false;
    bool waited_ = false;
};

void Rank::take_ready() {
    while (!untaken.empty() && untaken.front()->take_if_ready()) // all ranks post in one order
        untaken.erase(untaken.begin());
}

class InProcessCommunicator final : public Communicator {
  public:
    InProcessCommunicator(std::shared_ptr<Group> group, int rank)
        : rank_(std::make_shared<Rank>(Rank{.group = std::move(group), .rank = rank})) {
        rank_->group->claim(rank);
    }

    InProcessCommunicator(const InProcessCommunicator&) = delete;
    InProcessCommunicator& operator=(const InProcessCommunicator&) = delete;
    ~InProcessCommunicator() override { rank_->group->leave(rank_->rank); }

    [[nodiscard]] int rank() const override { return rank_->rank; }
    [[nodiscard]] int size() const override { return rank_->group->size(); }
    [[nodiscard]] std::string name() const override { return "in_process"; }

    std::unique_ptr<Exchange> start_all_to_all(Traffic traffic, const void* send, Sizes send_sizes,
                                               void* receive, Sizes receive_sizes) override {
        check(send_sizes);
        check(receive_sizes);
        auto transfer = make(Operation::all_to_all, traffic, receive);
        put_stretches(transfer->to(), send_sizes);
        put_stretches(transfer->from(), receive_sizes);
        return started(std::move(transfer), send);
    }

    std::unique_ptr<Exchange> start_all_to_owners(Traffic traffic, const void* send, Sizes sizes,
                                                  Piece piece, void* receive) override {
        check(sizes);
        auto transfer = make(Operation::all_to_all, traffic, receive);
        put_stretches(transfer->to(), sizes, piece);
        const std::size_t received = piece.size_in(sizes[static_cast<std::size_t>(rank())]);
        for (std::size_t from = 0; from < sizes.size(); ++from)
            transfer->from().push_back({from * received, received});
        return started(std::move(transfer), send);
    }
    [[nodiscard]] bool sends_pieces() const override { return true; }

    std::unique_ptr<Exchange> start_stretches(Traffic traffic, const void* send, Stretches to,
                                              void* receive, Stretches from) override {
        check(to);
        check(from);
        auto transfer = make(Operation::all_to_all, traffic, receive);
        transfer->to().assign(to.begin(), to.end());
        transfer->from().assign(from.begin(), from.end());
        return started(std::move(transfer), send);
    }

    std::unique_ptr<Exchange> start_all_gather(Traffic traffic, const void* send, void* receive,
                                               Sizes sizes) override {
        check(sizes);
        auto transfer = make(Operation::all_gather, traffic, receive);
        transfer->to().assign(1, {0, sizes[static_cast<std::size_t>(rank())]});
        put_stretches(transfer->from(), sizes);
        return started(std::move(transfer), send);
    }

    std::unique_ptr<Exchange> start_reduce_scatter(Traffic traffic, const float* send, float* receive,
                                                   Sizes sizes) override {
        check(sizes);
        auto transfer = make(Operation::reduce_scatter, traffic, receive);
        put_stretches(transfer->to(), sizes);
        put_stretches(transfer->from(), sizes);
        transfer->from()[static_cast<std::size_t>(rank())].begin = 0;
        return started(std::move(transfer), send);
    }

    void progress() override {
        rank_->group->throw_if_aborted();
        rank_->take_ready();
    }

    void abort(const std::string& reason) noexcept override {
        rank_->group->abort(reason_text(rank_->rank, reason));
    }

  private:
    template <class PerRank>
    void check(PerRank sizes) const {
        if (sizes.size() != static_cast<std::size_t>(size()))
            throw std::invalid_argument("an exchange among " + std::to_string(size()) +
                                        " ranks was given " + std::to_string(sizes.size()) + " sizes");
    }

    std::unique_ptr<Transfer> make(Operation operation, Traffic traffic, void* receive) {
        return std::make_unique<Transfer>(rank_, operation, traffic, static_cast<std::byte*>(receive));
    }
    std::unique_ptr<Exchange> started(std::unique_ptr<Transfer> transfer, const void* send) {
        transfer->start(send);
        rank_->take_ready();
        return transfer;
    }

    std::shared_ptr<Rank> rank_;
};

} // namespace
} // namespace in_process

InProcessGroup::InProcessGroup(int size, std::chrono::milliseconds timeout) {
    if (size < 1)
        throw std::invalid_argument("a group needs at least one rank, not " + std::to_string(size));
    group_ = std::make_shared<in_process::Group>(size, timeout);
}

std::unique_ptr<Communicator> InProcessGroup::communicator(int rank) {
    if (rank < 0 || rank >= group_->size())
        throw std::invalid_argument("rank " + std::to_string(rank) + " is not one of " +
                                    std::to_string(group_->size()));
    return std::make_unique<in_process::InProcessCommunicator>(group_, rank);
}

void run_ranks(int size, const std::function<void(Communicator&)>& function,
               std::chrono::milliseconds timeout) {
    InProcessGroup group(size, timeout);
    std::vector<std::unique_ptr<Communicator>> communicators;
    communicators.reserve(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank)
        communicators.push_back(group.communicator(rank));
    in_process::run_threads(
        std::move(communicators), function,
        [](Communicator& communicator, const std::string& reason) { communicator.abort(reason); });
}

} // namespace truestep::distributed
