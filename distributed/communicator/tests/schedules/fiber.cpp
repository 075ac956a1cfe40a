// Switches between stacks in one real thread, for threads whose schedule a test chooses.
#include "fiber.hpp"

#include <cxxabi.h>

#include <cstring>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define TRUESTEP_FIBERS_TOLD 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TRUESTEP_FIBERS_TOLD 1
#endif
#endif
#ifdef TRUESTEP_FIBERS_TOLD
#include <sanitizer/common_interface_defs.h>
#endif

namespace truestep::distributed::model {
namespace {

Fiber* left = nullptr;
Fiber* entered = nullptr;

} // namespace

Fiber::Fiber() = default;

Fiber::Fiber(std::size_t stack_size) : stack_(stack_size), bottom_(stack_.data()), size_(stack_.size()) {}

void Fiber::begin(std::function<void()> body) {
    body_ = std::move(body);
    exceptions_ = {};
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.data();
    context_.uc_stack.ss_size = stack_.size();
    context_.uc_link = nullptr;
    makecontext(&context_, &Fiber::enter, 0);
}

void Fiber::enter() {
    entered->arrive(nullptr);
    entered->body_();
}

void Fiber::leave(Fiber& from, Fiber& to, [[maybe_unused]] bool for_good) {
    // The C++ runtime counts exceptions per real thread, in two words (Itanium C++ ABI, 2.2.2); here every
    // fiber has its own.
    void* const exceptions = __cxxabiv1::__cxa_get_globals();
    std::memcpy(from.exceptions_.data(), exceptions, from.exceptions_.size());
    std::memcpy(exceptions, to.exceptions_.data(), to.exceptions_.size());
    left = &from;
    entered = &to;
    void* kept = nullptr;
#ifdef TRUESTEP_FIBERS_TOLD
    __sanitizer_start_switch_fiber(for_good ? nullptr : &kept, to.bottom_, to.size_);
#endif
    swapcontext(&from.context_, &to.context_);
    from.arrive(kept);
}

void Fiber::arrive([[maybe_unused]] void* kept) {
#ifdef TRUESTEP_FIBERS_TOLD
    __sanitizer_finish_switch_fiber(kept, &left->bottom_, &left->size_);
#endif
}

} // namespace truestep::distributed::model
