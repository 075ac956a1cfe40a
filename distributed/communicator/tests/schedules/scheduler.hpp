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

/// What threads do things to: an atomic, a mutex, a condition variable. Its history stands in a hash.
class Object {
  public:
    Object();
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    ~Object();

  private:
    friend class Scheduler;
    std::uint64_t name_; ///< the same in all schedules: its maker's own, by number
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
    std::uint8_t cost = 0; ///< 1: a preemption, or a fault that is not bound to happen
};

/// One of several options, at a step of this number. Options that cost nothing come first, and of these the
/// thread that is running.
struct Choice {
    std::size_t step;
    std::span<const Option> options;
    std::uint64_t state; ///< equal where all that has happened is, up to the order of what is independent
};

/// Takes every decision.
class Chooser {
  public:
    virtual ~Chooser() = default;
    virtual std::size_t choose(const Choice& choice) = 0;
};

/// What a scenario may suffer beside the choice of who runs.
struct World {
    int planted = 0;                ///< the mistake that is switched on; 0: none
    bool wakes_for_nothing = false; ///< a condition variable's wait may return early
    bool impatient = false;         ///< a deadline may pass while others still run
    int threads_to_be_had = static_cast<int>(most_threads) - 1;
};

/// One execution: threads that are fibers, of which one runs until it stands before its next visible step.
/// Then the chooser says who takes the next one.
class Scheduler {
  public:
    Scheduler();
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;
    ~Scheduler();

    /// The one whose execution is under way.
    [[nodiscard]] static Scheduler& now();

    /// Returns what went wrong, or nothing. What a failed execution has left unfinished is never taken up
    /// again, nor freed: nobody could unwind it without running on.
    std::string run(const World& world, const std::function<void()>& body, Chooser& chooser);

    [[nodiscard]] const World& world() const { return world_; }
    [[nodiscard]] std::size_t steps() const { return steps_; }
    [[nodiscard]] std::size_t deadlines() const { return deadlines_; }
    [[nodiscard]] Time time() const { return time_; }
    /// Equal after executions that differ in the order of what is independent, and in no others.
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
    /// Memory whose readers and writers are looked after. It stays until the execution ends, gone or not.
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
    struct Told {
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
    std::size_t count_ = 0; ///< of threads_ in this execution; the others' fibers are kept for later
    std::size_t running_ = 0;
    std::array<Option, 3 * most_threads> options_;
    std::size_t offered_ = 0; ///< of options_
    std::vector<std::unique_ptr<Region>> regions_;
    std::vector<Told> told_;
    std::string failure_;
    std::uint64_t histories_ = 0; ///< of all threads and objects, in no order
    std::size_t steps_ = 0;
    std::size_t deadlines_ = 0;
    int fruitless_ = 0;
    bool active_ = false;
    Time time_{};
};

} // namespace truestep::distributed::model
