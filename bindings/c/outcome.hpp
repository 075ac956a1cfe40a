#pragma once

#include <exception>
#include <string>

#include <truestep.h>

/// How a call ends on C's side: a status, and a line for truestep_last_error().
namespace truestep::abi {

/// Call this while an error is handled: stores its text for this thread, and returns its status.
[[nodiscard]] truestep_status failure() noexcept;

void set_error(const char* text) noexcept;
[[nodiscard]] const char* last_error() noexcept;
/// Clears the text, so that a later text is known to be new.
void clear_error() noexcept;

/// Runs a call's body, and lets no exception escape.
template <class Body>
[[nodiscard]] truestep_status guarded(const Body& body) noexcept {
    try {
        body();
        return TRUESTEP_OK;
    } catch (...) {
        return failure();
    }
}

/// Throws truestep::Error that names a missing argument.
void need(const void* argument, const char* name);
template <class Argument>
Argument& need(Argument* argument, const char* name) {
    need(static_cast<const void*>(argument), name);
    return *argument;
}
/// Checks a struct that begins with its size.
void need_size(std::size_t given, std::size_t wanted, const char* name);

} // namespace truestep::abi
