// Runs simulated threads one step at a time in a chosen order, and detects deadlocks and misuse.
#include "scheduler.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "model.hpp"

namespace truestep::distributed::model {
namespace {

constexpr std::size_t stack_size = std::size_t{256} * 1024;
constexpr std::size_t most_steps = 20'000;
constexpr int most_fruitless = 32;

Scheduler* current = nullptr;

/// Keeps the stacks of failed executions, even beyond the end of the process: unwinding them would
/// run code outside of any execution.
std::vector<std::unique_ptr<Fiber>>& abandoned() {
    static auto& fibers = *new std::vector<std::unique_ptr<Fiber>>;
    return fibers;
}

} // namespace

Object::Object() {
    Scheduler& scheduler = Scheduler::now();
    name_ = mixed(scheduler.running_ + 1, ++scheduler.running().objects);
    scheduler.histories_ += mixed(name_, history_);
}

Object::~Object() {
    if (current != nullptr && current->active_)
        current->histories_ -= mixed(name_, history_);
}

Scheduler::Scheduler() : threads_(most_threads) {}

Scheduler::~Scheduler() = default;

Scheduler& Scheduler::now() {
    return *current;
}

std::string Scheduler::run(const World& world, const std::function<void()>& body, Chooser& chooser) {
    world_ = world;
    chooser_ = &chooser;
    current = this;
    count_ = running_ = steps_ = deadlines_ = 0;
    histories_ = 0;
    fruitless_ = 0;
    time_ = Time{};
    regions_.clear();
    told_.clear();
    failure_.clear();
    active_ = true;
    (void)start(body);
    Fiber::leave(main_, *threads_[0].fiber);
    active_ = false;
    if (!failure_.empty())
        for (Thread& thread : threads_)
            if (thread.fiber)
                abandoned().push_back(std::move(thread.fiber));
    return failure_;
}

std::size_t Scheduler::start(std::function<void()> body) {
    if (count_ == threads_.size() || static_cast<int>(count_) > world_.threads_to_be_had)
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    const std::size_t thread = count_++;
    Thread& made = threads_[thread];
    Thread fresh;
    fresh.fiber = made.fiber ? std::move(made.fiber) : std::make_unique<Fiber>(stack_size);
    if (thread != running_) {
        Thread& maker = running();
        fresh.clock = maker.clock;
        maker.clock.tick(running_);
        set(running_ + 1, maker.history, mixed(maker.history, 0xBE61));
        fresh.history = mixed(maker.history, thread);
        progress();
    }
    fresh.clock.tick(thread);
    made = std::move(fresh);
    histories_ += mixed(thread + 1, made.history);
    made.fiber->begin([this, run_body = std::move(body)] {
        try {
            run_body();
        } catch (const std::exception& error) {
            fail(std::string("an error leaves a thread: ") + error.what());
        }
        finish();
    });
    return thread;
}

void Scheduler::finish() {
    Thread& self = running();
    self.finished = true;
    self.doing = "has ended";
    set(running_ + 1, self.history, mixed(self.history, 4));
    progress();
    switch_threads();
}

void Scheduler::fail(const std::string& what) {
    failure_ = what;
    Fiber::leave(*running().fiber, main_);
    std::abort(); // never resumed
}

bool Scheduler::can_go_on(const Thread& thread) {
    return !thread.finished && thread.sleeps_on == nullptr &&
           (thread.wants == nullptr || !thread.wants->held_) &&
           (thread.joins == nullptr || thread.joins->finished);
}

void Scheduler::offer(Option::Kind kind, std::size_t thread, bool costs) {
    options_[offered_++] = {kind, static_cast<std::uint8_t>(thread), static_cast<std::uint8_t>(costs)};
}

Option Scheduler::chosen() {
    if (offered_ == 1)
        return options_[0];
    return options_[chooser_->choose({steps_, std::span(options_).first(offered_), state()})];
}

void Scheduler::gather_options() {
    offered_ = 0;
    const bool stays = can_go_on(running()) && !running().yielded;
    if (stays)
        offer(Option::Kind::go_on, running_, false);
    for (std::size_t i = 0; i < count_; ++i)
        if (i != running_ && can_go_on(threads_[i]) && !threads_[i].yielded)
            offer(Option::Kind::go_on, i, stays);
    if (offered_ == 0) {
        for (std::size_t i = 0; i < count_; ++i)
            if (can_go_on(threads_[i]))
                offer(Option::Kind::go_on, i, false);
        if (offered_ > 0 && ++fruitless_ > most_fruitless)
            fail("threads yield for ever: " + who_waits());
    }
    if (offered_ == 0)
        offer_passing_deadlines(false);
    else if (world_.impatient)
        offer_passing_deadlines(true);
    if (world_.wakes_for_nothing && offered_ > 0)
        for (std::size_t i = 0; i < count_; ++i)
            if (threads_[i].sleeps_on != nullptr)
                offer(Option::Kind::wake_for_nothing, i, true);
}

void Scheduler::offer_passing_deadlines(bool costs) {
    for (std::size_t i = 0; i < count_; ++i)
        if (threads_[i].sleeps_on != nullptr && threads_[i].deadline != nullptr)
            offer(Option::Kind::let_time_pass, i, costs);
}

void Scheduler::carry_out(const Option& option) {
    Thread& thread = threads_[option.thread];
    if (option.kind == Option::Kind::go_on)
        return;
    if (option.kind == Option::Kind::let_time_pass) {
        time_ = std::max(time_, *thread.deadline);
        ++deadlines_;
        thread.in_time = false;
    }
    set(option.thread + 1U, thread.history, mixed(thread.history, static_cast<std::uint64_t>(option.kind)));
    thread.sleeps_on->forget(option.thread);
    thread.sleeps_on = nullptr;
}

/// Switches away from a thread that stands before its next step, cannot take it, or has ended.
void Scheduler::switch_threads() {
    if (++steps_ > most_steps)
        fail("it does not end: " + who_waits());
    gather_options();
    if (offered_ == 0) {
        const bool ended =
            std::all_of(threads_.begin(), threads_.begin() + static_cast<std::ptrdiff_t>(count_),
                        [](const Thread& thread) { return thread.finished; });
        if (!ended)
            fail("nothing can go on: " + who_waits());
        Fiber::leave(*running().fiber, main_, true);
    }
    const Option option = chosen();
    carry_out(option);
    // A thread whose time passed, or that woke for nothing, may still have to wait for the mutex.
    const std::size_t next = can_go_on(threads_[option.thread]) ? option.thread : running_;
    if (next == running_ && !can_go_on(running()))
        return switch_threads();
    threads_[next].yielded = false;
    if (next == running_)
        return;
    Thread& self = running();
    running_ = next;
    Fiber::leave(*self.fiber, *threads_[next].fiber, self.finished);
}

std::uint64_t Scheduler::state() const {
    std::uint64_t yielded = 0;
    for (std::size_t i = 0; i < count_; ++i)
        yielded |= static_cast<std::uint64_t>(threads_[i].yielded) << i;
    return mixed(mixed(histories_, running_), mixed(yielded, static_cast<std::uint64_t>(fruitless_)));
}

std::string Scheduler::who_waits() const {
    std::ostringstream text;
    const char* comma = "";
    for (std::size_t i = 0; i < count_; ++i) {
        if (threads_[i].finished)
            continue;
        text << comma << "thread " << i
             << (threads_[i].sleeps_on != nullptr ? " sleeps" : " stands where it ")
             << (threads_[i].sleeps_on != nullptr ? "" : threads_[i].doing);
        comma = ", ";
    }
    return text.str();
}

std::string Scheduler::story() const {
    std::vector<std::uint64_t> objects; // in the order of their appearance
    std::ostringstream text;
    for (const SchedulerEvent& told : told_) {
        const auto found = std::find(objects.begin(), objects.end(), told.object);
        text << "  " << told.step << ": thread " << told.thread << ' ' << told.what << " #"
             << found - objects.begin() + 1 << '\n';
        if (found == objects.end())
            objects.push_back(told.object);
    }
    return text.str();
}

} // namespace truestep::distributed::model
