#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

namespace truestep::distributed {

/// Throws truestep::Error, one line, unless there is one at least.
void check_threads(int threads);

/// A few threads that share loops, one after another. With one thread there is no pool: the caller
/// does the work.
class Workers {
  public:
    explicit Workers(int threads);
    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    [[nodiscard]] int threads() const { return static_cast<int>(threads_.size()) + 1; }

    /// A reference to the work, without a copy: the work outlives the call.
    class Task {
      public:
        template <class Work>
        Task(const Work& work) // NOLINT(google-explicit-constructor): so that a lambda is one
            : work_(&work),
              call_([](const void* called, int part) { (*static_cast<const Work*>(called))(part); }) {}
        void operator()(int part) const { call_(work_, part); }

      private:
        const void* work_;
        void (*call_)(const void* work, int part);
    };

    /// Calls task(part) for part 0..threads()-1, the last in the caller's thread, and returns when
    /// all have returned. A task must not throw: the others would still be using what its error
    /// destroys.
    void run(const Task& task);

  private:
    void serve(int part);
    void stop();

    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::condition_variable begin_;
    std::condition_variable end_;
    const Task* task_ = nullptr;
    std::size_t round_ = 0;
    int busy_ = 0;
    bool stop_ = false;
};

} // namespace truestep::distributed
