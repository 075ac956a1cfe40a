#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "scheduler.hpp"

/// The names of std that the communicator and the thread pool use, in a form whose every visible step is
/// the scheduler's to place. All atomics are sequentially consistent, as
/// those of the sources are, but for the count of a Message.
namespace truestep::distributed::model {

[[nodiscard]] inline bool planted(int known_bug) {
    return Scheduler::now().world().planted == known_bug;
}

class Mutex : public Object {
  public:
    void lock() { Scheduler::now().lock(*this); }
    void unlock() { Scheduler::now().unlock(*this); }

  private:
    friend class Scheduler;
    bool held_ = false;
};

class ConditionVariable : public Object {
  public:
    ConditionVariable() = default;
    ConditionVariable(const ConditionVariable&) = delete;
    ConditionVariable& operator=(const ConditionVariable&) = delete;
    ~ConditionVariable() {
        if (!sleepers_.empty())
            Scheduler::now().fail("a condition variable goes while threads sleep on it");
    }
    void notify_one() { Scheduler::now().notify(*this, false); }
    void notify_all() { Scheduler::now().notify(*this, true); }

    void wait(std::unique_lock<Mutex>& lock) {
        (void)Scheduler::now().sleep(*this, *lock.mutex(), nullptr);
    }

    template <class Predicate>
    void wait(std::unique_lock<Mutex>& lock, const Predicate& predicate) {
        while (!predicate())
            wait(lock);
    }

    std::cv_status wait_until(std::unique_lock<Mutex>& lock, Time deadline) {
        return Scheduler::now().sleep(*this, *lock.mutex(), &deadline) ? std::cv_status::no_timeout
                                                                       : std::cv_status::timeout;
    }

    template <class Predicate>
    bool wait_until(std::unique_lock<Mutex>& lock, Time deadline, const Predicate& predicate) {
        while (!predicate())
            if (wait_until(lock, deadline) == std::cv_status::timeout)
                return predicate();
        return true;
    }

  private:
    friend class Scheduler;
    void forget(std::size_t thread) const { std::erase(sleepers_, thread); }
    mutable std::vector<std::size_t> sleepers_;
};

template <class T>
class Atomic : public Object {
  public:
    Atomic() = default;
    Atomic(T value) : value_(value) {}

    [[nodiscard]] T load() const {
        Scheduler::now().step("reads", *this);
        Scheduler::now().observe(const_cast<Atomic&>(*this));
        return value_;
    }
    operator T() const { return load(); }
    /// A relaxed load, which orders nothing.
    [[nodiscard]] T glance() const {
        Scheduler::now().step("glances at", *this);
        Scheduler::now().glance(*this);
        return value_;
    }
    void store(T value) {
        Scheduler::now().step("writes", *this);
        Scheduler::now().overwrite(*this);
        value_ = value;
    }
    T operator=(T value) { // NOLINT(misc-unconventional-assign-operator): as std's
        store(value);
        return value;
    }
    T fetch_add(T value) {
        return update("adds to", [&] { value_ = static_cast<T>(value_ + value); });
    }
    T fetch_sub(T value) {
        return update("takes from", [&] { value_ = static_cast<T>(value_ - value); });
    }

  private:
    template <class Change>
    T update(const char* what, const Change& change) {
        Scheduler::now().step(what, *this);
        Scheduler::now().update(*this);
        const T before = value_;
        change();
        return before;
    }

    T value_{};
};

/// A std::shared_ptr<const void> whose count the scheduler sees: releasing a copy happens before
/// what the last holder does, and looking at the count orders nothing.
class Message {
  public:
    Message() = default;
    template <class T>
    Message(std::shared_ptr<T> message)
        : message_(std::move(message)), holders_(std::make_shared<Atomic<int>>(1)) {}
    Message(const Message& other) : message_(other.message_), holders_(other.holders_) {
        if (holders_)
            holders_->fetch_add(1);
    }
    Message(Message&&) noexcept = default;
    Message& operator=(Message other) noexcept {
        std::swap(message_, other.message_);
        std::swap(holders_, other.holders_);
        return *this;
    }
    ~Message() { reset(); }

    void reset() {
        const auto holders = std::exchange(holders_, nullptr);
        if (holders)
            holders->fetch_sub(1);
        message_.reset();
    }
    [[nodiscard]] const void* get() const { return message_.get(); }
    [[nodiscard]] int use_count() const { return holders_ ? holders_->glance() : 0; }
    /// For a known bug: the bytes, without holding them.
    [[nodiscard]] Message not_held() const {
        Message alias;
        alias.message_ = std::shared_ptr<const void>(std::shared_ptr<const void>(), get());
        return alias;
    }

  private:
    std::shared_ptr<const void> message_;
    std::shared_ptr<Atomic<int>> holders_; ///< the number of holders
};

/// Data that threads share under a mutex, or after another synchronization. Wrong uses are
/// detected.
template <class T>
class Plain {
  public:
    Plain() = default;
    Plain(T value) : value_(std::move(value)) {}
    Plain(const Plain& other) : value_(other) {}
    ~Plain() = default;
    operator T() const {
        Scheduler::now().read(place_);
        return value_;
    }
    Plain&
    operator=(const Plain& other) { // NOLINT(bugprone-unhandled-self-assignment): keeps its own place
        T value = other;
        Scheduler::now().write(place_);
        value_ = std::move(value);
        return *this;
    }
    T operator++() { return *this = static_cast<T>(*this + 1); }
    T operator--() { return *this = static_cast<T>(*this - 1); }

  private:
    mutable Place place_;
    T value_{};
};

class Thread {
  public:
    template <class Body>
    requires(!std::is_same_v<std::remove_cvref_t<Body>, Thread>) explicit Thread(Body&& body) {
        auto kept = std::make_shared<std::remove_cvref_t<Body>>(std::forward<Body>(body));
        thread_ = Scheduler::now().start([kept]() mutable {
            (*kept)();
            kept.reset(); // in the thread that ends, as std's does
        });
    }
    Thread(Thread&& other) noexcept : thread_(std::exchange(other.thread_, 0)) {}
    Thread& operator=(Thread&&) = delete;
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;
    ~Thread() {
        if (joinable())
            Scheduler::now().fail("a thread is dropped that nobody has joined");
    }

    [[nodiscard]] bool joinable() const { return thread_ != 0; }
    void join() { Scheduler::now().join(std::exchange(thread_, 0)); }

  private:
    std::size_t thread_ = 0; ///< 0: none. No thread starts the scheduler's thread 0
};

class JoiningThread : public Thread {
  public:
    using Thread::Thread;
    JoiningThread(JoiningThread&&) noexcept = default;
    JoiningThread& operator=(JoiningThread&&) = delete;
    JoiningThread(const JoiningThread&) = delete;
    JoiningThread& operator=(const JoiningThread&) = delete;
    ~JoiningThread() {
        if (joinable())
            join();
    }
};

inline void yield() {
    Scheduler::now().yield();
}

[[nodiscard]] inline Time now() {
    return Scheduler::now().time();
}

/// Records a read of memory that may be a peer's.
inline void read(const void* from, std::size_t bytes) {
    Scheduler::now().read(from, bytes);
}

inline void copy(void* to, const void* from, std::size_t bytes) {
    Scheduler::now().read(from, bytes);
    Scheduler::now().write(to, bytes);
    std::memcpy(to, from, bytes);
}

} // namespace truestep::distributed::model
