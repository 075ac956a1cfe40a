#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "clocks.hpp"
#include "fiber.hpp"

namespace truestep::distributed::model {

using Time = std::chrono::steady_clock::time_point;

/// An object that threads operate on: an atomic, a mutex, a condition variable. A hash holds its
/// history.
class Object {
  public:
    Object();
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    ~Object();

  private:
    friend class Scheduler;
    std::uint64_t name_; ///< the same in all schedules: its maker's name and a number
    std::uint64_t history_ = 0;
    Clock clock_;
};

class Mutex;
class ConditionVariable;

/// One of the things that may happen next.
struct Option {
    enum class Kind : std::uint8_t { go_on, wake_for_nothing, let_time_pass };
    Kind kind = Kind::go_on;
    std::uint8_t thread = 0;
    std::uint8_t cost = 0; ///< 1: a preemption, or an optional fault
};

/// One of several options at a step. Options that cost nothing come first, and of these the running
/// thread.
struct Choice {
    std::size_t step;
    std::span<const Option> options;
    std::uint64_t state; ///< equal for equal pasts, up to the order of independent steps
};

/// Takes all decisions.
class Chooser {
  public:
    virtual ~Chooser() = default;
    virtual std::size_t choose(const Choice& choice) = 0;
};

/// The events that a scenario may suffer besides the choice of the next thread.
struct World {
    int planted = 0;                ///< the known bug that is switched on; 0: none
    bool wakes_for_nothing = false; ///< a condition variable's wait may return early
    bool impatient = false;         ///< a deadline may pass while others still run
    int threads_to_be_had = static_cast<int>(most_threads) - 1;
};

/// One execution: threads that are fibers. One runs until it stands before its next visible step;
/// then the chooser picks the next thread.
class Scheduler {
  public:
    Scheduler();
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;
    ~Scheduler();

    /// The scheduler of the current execution.
    [[nodiscard]] static Scheduler& now();

    /// Returns the failure, or nothing. The unfinished parts of a failed execution are never
    /// resumed or freed: unwinding them would run them.
    std::string run(const World& world, const std::function<void()>& body, Chooser& chooser);

    [[nodiscard]] const World& world() const { return world_; }
    [[nodiscard]] std::size_t steps() const { return steps_; }
    [[nodiscard]] std::size_t deadlines() const { return deadlines_; }
    [[nodiscard]] Time time() const { return time_; }
    /// Equal after executions that differ only in the order of independent steps.
    [[nodiscard]] std::uint64_t state() const;
    /// The steps of the execution, a line each.
    [[nodiscard]] std::string story() const;

    /// Ends the execution as a failure.
    [[noreturn]] void fail(const std::string& what);

    // For the model's types, in the thread that is running.
    void step(const char* what, const Object& object);
    void observe(Object& object);
    void glance(const Object& object);
    void overwrite(Object& object);
    void update(Object& object, bool synchronizes = true);
    void yield();
    void lock(Mutex& mutex);
    void unlock(Mutex& mutex);
    bool sleep(ConditionVariable& variable, Mutex& mutex, const Time* deadline); ///< false: the deadline
    void notify(ConditionVariable& variable, bool all);
    [[nodiscard]] std::size_t start(std::function<void()> body);
    void join(std::size_t thread);
    void read(Place& place);
    void write(Place& place);

    struct Region {
        std::vector<std::byte> bytes;
        std::vector<Place> places;
        bool gone = false;
    };
    /// Memory whose reads and writes are checked. It is kept until the execution ends, freed or
    /// not.
    [[nodiscard]] Region& region(std::size_t size);
    void read(const void* from, std::size_t size);
    void write(const void* to, std::size_t size);

  private:
    friend class Object;
    struct Thread {
        std::unique_ptr<Fiber> fiber;
        std::uint64_t history = 0;
        std::uint64_t objects = 0;
        Clock clock;
        const Mutex* wants = nullptr;
        const ConditionVariable* sleeps_on = nullptr;
        const Time* deadline = nullptr;
        const Thread* joins = nullptr;
        bool in_time = true;
        bool yielded = false;
        bool finished = false;
        const char* doing = "begins";
    };
    struct SchedulerEvent {
        std::size_t step;
        std::size_t thread;
        const char* what;
        std::uint64_t object;
    };

    [[nodiscard]] static bool can_go_on(const Thread& thread);
    [[nodiscard]] Thread& running() { return threads_[running_]; }
    void gather_options();
    void offer(Option::Kind kind, std::size_t thread, bool costs);
    [[nodiscard]] Option chosen();
    void offer_passing_deadlines(bool costs);
    void carry_out(const Option& option);
    void switch_threads();
    void finish();
    void touch(Place* places, std::size_t count, bool writes);
    Region* region_of(const void* at, std::size_t size, std::size_t& offset);
    void set(std::uint64_t name, std::uint64_t& history, std::uint64_t next);
    void progress();
    [[nodiscard]] std::string who_waits() const;

    World world_;
    Chooser* chooser_ = nullptr;
    Fiber main_;
    std::vector<Thread> threads_;
    std::size_t count_ = 0; ///< of threads_ in this execution; the other fibers are kept for later
    std::size_t running_ = 0;
    std::array<Option, 3 * most_threads> options_;
    std::size_t offered_ = 0; ///< of options_
    std::vector<std::unique_ptr<Region>> regions_;
    std::vector<SchedulerEvent> told_;
    std::string failure_;
    std::uint64_t histories_ = 0; ///< of all threads and objects, combined in any order
    std::size_t steps_ = 0;
    std::size_t deadlines_ = 0;
    int fruitless_ = 0;
    bool active_ = false;
    Time time_{};
};

} // namespace truestep::distributed::model
