// Runs ranks as fibers that take turns in one thread, with a communicator between them.
#include "fiber_group.hpp"

#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ucontext.h>

#include <truestep/distributed/communicator.hpp>

namespace truestep::properties::scape::scope {

namespace {

using distributed::Aborted;
using distributed::Communicator;
using distributed::Exchange;
using distributed::Traffic;

enum class Pattern : std::uint8_t { all_to_all, all_gather };

/// One rank's part in an exchange.
struct Part {
    Pattern pattern = Pattern::all_gather;
    Traffic traffic = Traffic::agreement;
    const std::byte* send = nullptr;
    std::byte* receive = nullptr;
    std::vector<std::size_t> send_sizes;
    std::vector<std::size_t> receive_sizes;
};

class Ring;

/// The exchanges of one run, by number.
class Exchanges {
  public:
    Exchanges(int ranks, Ring& ring) : ring_(ring), started_(static_cast<std::size_t>(ranks), 0) {}

    [[nodiscard]] int size() const { return static_cast<int>(started_.size()); }
    [[nodiscard]] std::size_t started() const {
        return std::accumulate(started_.begin(), started_.end(), std::size_t{0});
    }
    std::size_t start(int rank, Part part);
    void wait(std::size_t number);
    void abort(const std::string& reason) noexcept {
        if (failure_.empty())
            failure_ = reason.empty() ? "aborted" : reason;
    }

  private:
    /// Carries out the exchange when the last rank has come: all buffers are still there then.
    void carry_out(std::deque<Part>& parts);

    Ring& ring_;
    std::vector<std::size_t> started_; ///< by rank
    std::deque<std::deque<Part>> open_;
    std::size_t done_ = 0; ///< all before this one are done
    std::string failure_;
};

class FiberCommunicator final : public Communicator {
  public:
    FiberCommunicator(int rank, Exchanges& exchanges) : rank_(rank), exchanges_(exchanges) {}

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return exchanges_.size(); }
    [[nodiscard]] std::string name() const override { return "fibers"; }

    std::unique_ptr<Exchange> start_all_to_all(Traffic traffic, const void* send, Sizes send_sizes,
                                               void* receive, Sizes receive_sizes) override {
        return start(Pattern::all_to_all, traffic, send, send_sizes, receive, receive_sizes);
    }
    std::unique_ptr<Exchange> start_all_gather(Traffic traffic, const void* send, void* receive,
                                               Sizes sizes) override {
        return start(Pattern::all_gather, traffic, send, sizes, receive, sizes);
    }
    std::unique_ptr<Exchange> start_reduce_scatter(Traffic, const float*, float*, Sizes) override {
        throw std::logic_error("ranks that take turns add nothing up: the reduction is ordered");
    }
    void progress() override {}
    void abort(const std::string& reason) noexcept override { exchanges_.abort(reason); }

  private:
    class Started final : public Exchange {
      public:
        Started(Exchanges& exchanges, std::size_t number) : exchanges_(exchanges), number_(number) {}
        void wait() override { exchanges_.wait(number_); }

      private:
        Exchanges& exchanges_;
        std::size_t number_;
    };

    std::unique_ptr<Exchange> start(Pattern pattern, Traffic traffic, const void* send, Sizes send_sizes,
                                    void* receive, Sizes receive_sizes) {
        return std::make_unique<Started>(
            exchanges_, exchanges_.start(rank_, {pattern,
                                                 traffic,
                                                 static_cast<const std::byte*>(send),
                                                 static_cast<std::byte*>(receive),
                                                 {send_sizes.begin(), send_sizes.end()},
                                                 {receive_sizes.begin(), receive_sizes.end()}}));
    }

    int rank_;
    Exchanges& exchanges_;
};

/// The stacks, and which one runs.
class Ring {
  public:
    void run(int ranks, const gate::Group::Work& work);
    /// Lets the others run.
    void yield() { swapcontext(&fibers_[current_].context, &back_); }

  private:
    static constexpr std::size_t stack_bytes = std::size_t{1} << 21U;

    struct Fiber {
        ucontext_t context{};
        std::unique_ptr<std::byte[]> stack; // NOLINT(*-avoid-c-arrays): never initialized, 2 MiB
        bool ended = false;
        std::exception_ptr failure;
    };

    static void enter() { running->work_of_current(); }
    void work_of_current();

    static thread_local Ring* running;

    std::vector<Fiber> fibers_;
    std::size_t current_ = 0;
    ucontext_t back_{};
    std::unique_ptr<Exchanges> exchanges_;
    const gate::Group::Work* work_ = nullptr;
};

thread_local Ring* Ring::running = nullptr;

void Ring::work_of_current() {
    Fiber& fiber = fibers_[current_];
    try {
        FiberCommunicator communicator(static_cast<int>(current_), *exchanges_);
        (*work_)(communicator);
    } catch (...) {
        fiber.failure = std::current_exception();
        exchanges_->abort("rank " + std::to_string(current_) + " has failed");
    }
    fiber.ended = true;
    yield();
}

void Ring::run(int ranks, const gate::Group::Work& work) {
    const auto count = static_cast<std::size_t>(ranks);
    if (fibers_.size() < count)
        fibers_.resize(count);
    exchanges_ = std::make_unique<Exchanges>(ranks, *this);
    work_ = &work;
    running = this;
    for (std::size_t rank = 0; rank < count; ++rank) {
        Fiber& fiber = fibers_[rank];
        if (!fiber.stack)
            fiber.stack.reset(new std::byte[stack_bytes]);
        fiber.ended = false;
        fiber.failure = nullptr;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = stack_bytes;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, &Ring::enter, 0);
    }
    std::size_t left = count;
    // With one thread, a round in which no rank starts an exchange or ends would repeat forever.
    while (left > 0) {
        const std::size_t before = exchanges_->started() + left;
        for (current_ = 0; current_ < count; ++current_) {
            if (fibers_[current_].ended)
                continue;
            swapcontext(&back_, &fibers_[current_].context);
            if (fibers_[current_].ended)
                --left;
        }
        if (left > 0 && exchanges_->started() + left == before)
            exchanges_->abort("the ranks wait for each other");
    }
    std::exception_ptr consequence;
    for (std::size_t rank = 0; rank < count; ++rank) {
        if (!fibers_[rank].failure)
            continue;
        try {
            std::rethrow_exception(fibers_[rank].failure);
        } catch (const Aborted&) {
            consequence = std::current_exception();
        }
    }
    if (consequence)
        std::rethrow_exception(consequence);
}

std::size_t Exchanges::start(int rank, Part part) {
    if (!failure_.empty())
        throw Aborted(failure_);
    const std::size_t number = started_[static_cast<std::size_t>(rank)]++;
    if (number - done_ == open_.size())
        open_.emplace_back(started_.size());
    std::deque<Part>& parts = open_[number - done_];
    parts[static_cast<std::size_t>(rank)] = std::move(part);
    for (const std::size_t started : started_)
        if (started <= number)
            return number;
    carry_out(parts);
    open_.pop_front();
    ++done_;
    return number;
}

void Exchanges::wait(std::size_t number) {
    while (done_ <= number) {
        if (!failure_.empty())
            throw Aborted(failure_);
        ring_.yield();
    }
}

void Exchanges::carry_out(std::deque<Part>& parts) {
    const std::size_t ranks = parts.size();
    const auto begin_of = [](const std::vector<std::size_t>& sizes, std::size_t rank) {
        std::size_t begin = 0;
        for (std::size_t before = 0; before < rank; ++before)
            begin += sizes[before];
        return begin;
    };
    for (std::size_t to = 0; to < ranks; ++to) {
        const Part& receiver = parts[to];
        for (std::size_t from = 0; from < ranks; ++from) {
            const Part& sender = parts[from];
            const bool gathers = receiver.pattern == Pattern::all_gather;
            const std::size_t size = receiver.receive_sizes[from];
            if (sender.pattern != receiver.pattern || sender.traffic != receiver.traffic ||
                sender.send_sizes[gathers ? from : to] != size) {
                abort("ranks " + std::to_string(from) + " and " + std::to_string(to) +
                      " have started different exchanges");
                throw Aborted(failure_);
            }
            const std::byte* data = sender.send + (gathers ? 0 : begin_of(sender.send_sizes, to));
            if (size > 0) // else there may be no buffer at all
                std::memmove(receiver.receive + begin_of(receiver.receive_sizes, from), data, size);
        }
    }
}

class FiberGroup final : public gate::Group {
  public:
    [[nodiscard]] std::string name() const override { return "fibers"; }
    [[nodiscard]] bool takes(int workers) const override { return workers >= 1; }
    void run(int workers, const Work& work) const override { ring_->run(workers, work); }
    [[nodiscard]] std::vector<Bytes> exchange(int workers,
                                              const std::function<Bytes(int rank)>& mine) const override {
        std::vector<Bytes> all;
        all.reserve(static_cast<std::size_t>(workers));
        for (int rank = 0; rank < workers; ++rank)
            all.push_back(mine(rank));
        return all;
    }

  private:
    std::unique_ptr<Ring> ring_ = std::make_unique<Ring>();
};

} // namespace

std::shared_ptr<const gate::Group> make_fiber_group() {
    return std::make_shared<FiberGroup>();
}

} // namespace truestep::properties::scape::scope
