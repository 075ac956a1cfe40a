#pragma once

#include <ucontext.h>

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

namespace truestep::distributed::model {

/// A separate stack that runs when it is switched to, in the only real thread.
class Fiber {
  public:
    Fiber(); ///< represents the current stack: that of the real thread
    explicit Fiber(std::size_t stack_size);
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;
    ~Fiber() = default;

    /// When next switched to, it runs `body`, which must end in a switch that never returns.
    void begin(std::function<void()> body);

    /// Switches from `from`, which is running, to `to`. `for_good`: `from` is not resumed until
    /// begin().
    static void leave(Fiber& from, Fiber& to, bool for_good = false);

  private:
    static void enter();
    void arrive(void* kept);

    ucontext_t context_{};
    std::vector<std::byte> stack_;
    std::function<void()> body_;
    const void* bottom_ = nullptr; ///< of the stack, for the address sanitizer, as is the size
    std::size_t size_ = 0;
    std::array<std::byte, 16>
        exceptions_{}; ///< what it has caught and what is in flight, while it does not run
};

} // namespace truestep::distributed::model
