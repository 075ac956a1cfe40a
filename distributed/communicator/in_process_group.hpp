#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <truestep/distributed/communicator.hpp>

#include <truestep/distributed/missing.hpp>

namespace truestep::distributed::in_process {

enum class Operation : std::uint8_t { all_to_all, all_gather, reduce_scatter };

inline std::string_view name(Operation operation) {
    constexpr std::array<std::string_view, 3> names{"all-to-all", "all-gather", "reduce-scatter"};
    return names.at(static_cast<std::size_t>(operation));
}

/// The contribution of one rank to an exchange. For a gather its only part is its own.
struct Post {
    bool present = false;
    Operation operation{};
    Traffic traffic{};
    const std::byte* send = nullptr;
    std::span<const Stretch> parts;

    [[nodiscard]] const std::byte* begin(std::size_t part) const { return send + parts[part].begin; }
    [[nodiscard]] std::size_t size(std::size_t part) const { return parts[part].size; }
};

/// One exchange, shared by all ranks. When all are done with it, another exchange uses it.
struct Meeting {
    explicit Meeting(std::size_t ranks)
        : posts(ranks), taken_by(ranks),
          lists(std::make_unique_for_overwrite<std::byte[]>(ranks * ranks * sizeof(Stretch))) {} // NOLINT
    [[nodiscard]] bool all_posted() const { return posted.load() == posts.size(); }
    [[nodiscard]] bool all_taken() const { return taken.load() == posts.size(); }
    /// Copies the rank's list of parts.
    void put(std::size_t rank, const Post& post) {
        auto* const list = reinterpret_cast<Stretch*>(lists.get()) + rank * posts.size();
        std::uninitialized_copy(post.parts.begin(), post.parts.end(), list);
        posts[rank] = post;
        posts[rank].parts = {list, post.parts.size()};
        last = static_cast<int>(rank);
    }
    void renew() {
        done = 0;
        for (Post& post : posts)
            post.present = false;
        for (auto& rank : taken_by)
            rank = false;
        posted = 0;
        taken = 0;
    }

    std::uint64_t number = 0;
    int last = 0;            ///< the rank that came last; read once all are posted
    std::size_t done = 0;    ///< ranks that are done; under the group's mutex
    std::vector<Post> posts; ///< under the group's mutex until all are posted; constant from then on
    std::vector<std::atomic<bool>> taken_by;
    std::unique_ptr<std::byte[]> lists; ///< room for every rank's; NOLINT: most of it is never touched
    std::atomic<std::size_t> posted{0};
    std::atomic<std::size_t> taken{0};
};

/// What a rank waits for, in one word that others may read at any moment.
struct WaitWord {
    static constexpr std::uint64_t numbers = std::uint64_t{1} << 28U;

    bool waits = false; ///< else this is its last wait
    Traffic traffic{};
    std::uint64_t number = 0;          ///< of the exchange, modulo `numbers`
    std::chrono::milliseconds begin{}; ///< since the group was made

    [[nodiscard]] std::uint64_t packed() const {
        return static_cast<std::uint64_t>(waits) | static_cast<std::uint64_t>(traffic) << 1U |
               number % numbers << 4U | static_cast<std::uint64_t>(begin.count()) << 32U;
    }
    static WaitWord unpacked(std::uint64_t word) {
        return {.waits = (word & 1U) != 0,
                .traffic = static_cast<Traffic>(word >> 1U & 7U),
                .number = word >> 4U & (numbers - 1),
                .begin = std::chrono::milliseconds(word >> 32U)};
    }
};
static_assert(traffic_kinds <= 8);

/// The place where the ranks of a process meet, by the running number of an exchange, which is the
/// same on all ranks.
class Group {
  public:
    Group(int size, std::chrono::milliseconds timeout)
        : timeout_(timeout), claimed_(static_cast<std::size_t>(size)), left_(claimed_.size()),
          waits_(claimed_.size()) {}

    [[nodiscard]] int size() const { return static_cast<int>(claimed_.size()); }

    void claim(int rank) {
        const std::lock_guard lock(mutex_);
        if (claimed_.at(static_cast<std::size_t>(rank)))
            throw std::logic_error("the communicator of rank " + std::to_string(rank) +
                                   " has been handed out");
        claimed_[static_cast<std::size_t>(rank)] = true;
    }

    /// The rank will start no more exchanges, so a rank that expects one need not wait for the
    /// timeout.
    void leave(int rank) {
        {
            const std::lock_guard lock(mutex_);
            left_[static_cast<std::size_t>(rank)] = true;
            any_left_ = true;
        }
        announce();
    }

    /// Also returns the meetings with which the rank is done. They last as long as the group.
    Meeting* post(std::uint64_t number, int rank, const Post& post, std::vector<Meeting*>& done) {
        Meeting* meeting = nullptr;
        bool complete = false;
        {
            const std::lock_guard lock(mutex_);
            for (Meeting* const one : done)
                if (++one->done == claimed_.size()) {
                    one->renew();
                    free_.push_back(one);
                }
            done.clear();
            meeting = open(number);
            meeting->put(static_cast<std::size_t>(rank), post);
            complete = meeting->posted.fetch_add(1) + 1 == claimed_.size();
            if (complete)
                std::erase(open_, meeting);
        }
        if (complete)
            announce();
        return meeting;
    }

    void take(Meeting& meeting, int rank) {
        meeting.taken_by[static_cast<std::size_t>(rank)] = true;
        if (meeting.taken.fetch_add(1) + 1 == claimed_.size())
            announce();
    }

    /// Ends all waits. Once this returns, no rank reads another's buffers any more, so they may be
    /// freed. True if it was the first.
    bool abort(const std::string& reason) {
        bool first = false;
        {
            const std::lock_guard lock(mutex_);
            first = !aborted_;
            if (first) {
                reason_ = reason;
                aborted_ = true;
            }
        }
        announce();
        while (copying_ > 0)
            std::this_thread::yield();
        return first;
    }

    [[nodiscard]] bool aborted() const { return aborted_; }

    [[noreturn]] void throw_aborted() {
        std::string reason;
        {
            const std::lock_guard lock(mutex_);
            reason = reason_;
        }
        while (copying_ > 0)
            std::this_thread::yield();
        throw Aborted(reason);
    }

    void throw_if_aborted() {
        if (aborted_)
            throw_aborted();
    }

    /// Runs a copy out of peers' buffers, unless the group is aborted: a peer that has seen the
    /// abort may have freed them. The count rises before the flag is read; abort() sets the flag
    /// before it reads the count.
    template <class Copy>
    void read_peers(const Copy& run_copy) {
        copying_.fetch_add(1);
        const bool allowed = !aborted_;
        try {
            if (allowed)
                run_copy();
        } catch (...) {
            copying_.fetch_sub(1);
            throw;
        }
        copying_.fetch_sub(1);
        if (!allowed)
            throw_aborted();
    }

    /// Waits until ready() or the timeout. `ready` is called again after each event.
    template <class Ready>
    void wait(const Meeting& meeting, int rank, Traffic traffic, const Ready& ready) {
        const auto now = std::chrono::steady_clock::now();
        const auto deadline = now + timeout_;
        auto& waiting = waits_[static_cast<std::size_t>(rank)];
        WaitWord word{
            .waits = true, .traffic = traffic, .number = meeting.number, .begin = since_made(now)};
        waiting = word.packed();
        while (true) {
            const std::uint64_t seen = events_;
            if (ready())
                break;
            throw_if_aborted();
            if (any_left_)
                end_if_left(meeting, traffic);
            if (!sleep_until_event(seen, deadline))
                end_if_missing(meeting, traffic);
        }
        word.waits = false;
        waiting = word.packed();
    }

  private:
    [[nodiscard]] std::chrono::milliseconds since_made(std::chrono::steady_clock::time_point time) const {
        return std::chrono::duration_cast<std::chrono::milliseconds>(time - made_);
    }
    [[nodiscard]] bool waits(std::size_t rank) const { return WaitWord::unpacked(waits_[rank]).waits; }

    /// Call it under the mutex. It makes several at once: how far ranks run ahead of each other
    /// varies by chance, and repeating a step must not take more memory.
    Meeting* open(std::uint64_t number) {
        constexpr std::size_t at_first = 16;
        for (Meeting* const meeting : open_)
            if (meeting->number == number)
                return meeting;
        if (free_.empty()) {
            const std::size_t all = std::max(at_first, 2 * meetings_.size());
            free_.reserve(all);
            open_.reserve(all);
            while (meetings_.size() < all)
                free_.push_back(meetings_.emplace_back(std::make_unique<Meeting>(claimed_.size())).get());
        }
        open_.push_back(free_.back());
        free_.pop_back();
        open_.back()->number = number;
        return open_.back();
    }

    void announce() {
        events_.fetch_add(1);
        if (sleepers_ == 0)
            return;
        { const std::lock_guard lock(mutex_); } // a rank that counted itself as a sleeper is asleep by then
        changed_.notify_all();
    }

    /// An answer often comes within a microsecond, while sleeping and waking cost several. The spin
    /// is short: with more ranks than cores it keeps the awaited rank from its core.
    bool sleep_until_event(std::uint64_t seen, std::chrono::steady_clock::time_point deadline) {
        constexpr int looks = 64;
        constexpr int yields = 8;
        for (int look = 0; look < looks; ++look)
            if (events_ != seen)
                return true;
        for (int turn = 0; turn < yields; ++turn) {
            std::this_thread::yield();
            if (events_ != seen)
                return true;
        }
        std::unique_lock lock(mutex_);
        sleepers_.fetch_add(1);
        const bool woken = changed_.wait_until(lock, deadline, [&] { return events_ != seen; });
        sleepers_.fetch_sub(1);
        return woken;
    }

    void end_if_left(const Meeting& meeting, Traffic traffic) {
        std::vector<int> gone;
        {
            const std::lock_guard lock(mutex_);
            for (std::size_t rank = 0; rank < left_.size(); ++rank)
                if (left_[rank] && !meeting.posts[rank].present)
                    gone.push_back(static_cast<int>(rank));
        }
        if (gone.empty())
            return;
        abort(ranks_text(gone) + " left before " + exchange_text(traffic));
        throw_aborted();
    }

    /// The last rank may have come since the deadline: then no rank is named, and nothing ends.
    void end_if_missing(const Meeting& meeting, Traffic traffic) {
        const std::vector<int> ranks = missing(meeting);
        if (ranks.empty())
            return;
        const std::string waits = waits_report(); // before the others learn of it and wait no more
        if (abort(missing_text(ranks, timeout_, exchange_text(traffic))))
            std::fputs(waits.c_str(), stderr);
        throw_aborted();
    }

    /// A rank that waits in another exchange is held up itself, so the ranks to name are those that
    /// do not wait.
    std::vector<int> missing(const Meeting& meeting) {
        const std::lock_guard lock(mutex_);
        const bool posted = meeting.all_posted();
        std::vector<int> late;
        std::vector<int> silent;
        for (std::size_t rank = 0; rank < waits_.size(); ++rank) {
            if (posted ? meeting.taken_by[rank].load() : meeting.posts[rank].present)
                continue;
            late.push_back(static_cast<int>(rank));
            if (!waits(rank))
                silent.push_back(static_cast<int>(rank));
        }
        return silent.empty() ? late : silent;
    }

    std::string waits_report() {
        const auto now = since_made(std::chrono::steady_clock::now());
        std::string text;
        const std::lock_guard lock(mutex_);
        for (std::size_t rank = 0; rank < waits_.size(); ++rank) {
            const WaitWord wait = WaitWord::unpacked(waits_[rank]);
            const std::string spans = last_spans(static_cast<int>(rank));
            const std::string where =
                exchange_text(wait.traffic) + " (number " + std::to_string(wait.number) + ")";
            if (wait.waits)
                text +=
                    wait_text(static_cast<int>(rank), now - wait.begin, awaited(wait.number), where, spans);
            else
                text += idle_text(static_cast<int>(rank),
                                  left_[rank]         ? ": it has left"
                                  : waits_[rank] == 0 ? ", and never has"
                                                      : ": its last wait, in " + where + ", began " +
                                                            tenths_text(now - wait.begin) + " ago",
                                  spans);
        }
        return text;
    }

    /// The ranks that have not brought their part, or else those that have not taken theirs. Call it under
    /// the mutex.
    std::vector<int> awaited(std::uint64_t number) {
        std::vector<int> ranks;
        for (const auto& meeting : meetings_)
            if (meeting->number % WaitWord::numbers == number && meeting->posted > 0)
                for (std::size_t rank = 0; rank < waits_.size(); ++rank)
                    if (meeting->all_posted() ? !meeting->taken_by[rank] : !meeting->posts[rank].present)
                        ranks.push_back(static_cast<int>(rank));
        return ranks;
    }

    const std::chrono::milliseconds timeout_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<std::uint64_t> events_{0};
    std::atomic<int> sleepers_{0};
    std::atomic<int> copying_{0};
    std::atomic<bool> aborted_{false};
    std::atomic<bool> any_left_{false};
    std::string reason_;
    std::vector<bool> claimed_;
    std::vector<bool> left_;
    const std::chrono::steady_clock::time_point made_ = std::chrono::steady_clock::now();
    std::vector<std::atomic<std::uint64_t>> waits_; ///< a WaitWord of each rank
    std::vector<std::unique_ptr<Meeting>> meetings_;
    std::vector<Meeting*> open_; ///< until all ranks have posted
    std::vector<Meeting*> free_; ///< until opened again
};

} // namespace truestep::distributed::in_process
