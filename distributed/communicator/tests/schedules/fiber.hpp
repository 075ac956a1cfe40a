#pragma once

#include <ucontext.h>

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

namespace truestep::distributed::model {

/// A stack of its own that runs when it is switched to, in the one real thread that there is.
class Fiber {
  public:
    Fiber(); ///< of whoever makes it: the real thread's own stack
    explicit Fiber(std::size_t stack_size);
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;
    ~Fiber() = default;

    /// When it is next switched to, it runs `body`, which has to end in a switch that never comes back.
    void begin(std::function<void()> body);

    /// Leaves `from`, which is running, for `to`. `for_good`: nobody will switch to `from` again until
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
