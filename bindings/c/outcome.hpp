#pragma once

#include <exception>
#include <string>

#include <truestep.h>

/// How a call ends on C's side: a status, and a line for truestep_last_error().
namespace truestep::abi {

/// To be called where an error is handled: keeps its text for this thread, and says which status it is.
[[nodiscard]] truestep_status failure() noexcept;

void set_error(const char* text) noexcept;
[[nodiscard]] const char* last_error() noexcept;
/// Takes the text away, so that what is set from here on can be told from what was set before.
void clear_error() noexcept;

/// Runs a call's body. Nothing that it throws gets out.
template <class Body>
[[nodiscard]] truestep_status guarded(const Body& body) noexcept {
    try {
        body();
        return TRUESTEP_OK;
    } catch (...) {
        return failure();
    }
}

/// Throws truestep::Error that names the argument where it is missing.
void need(const void* argument, const char* name);
template <class Argument>
Argument& need(Argument* argument, const char* name) {
    need(static_cast<const void*>(argument), name);
    return *argument;
}
/// Of a struct that begins with its size.
void need_size(std::size_t given, std::size_t wanted, const char* name);

} // namespace truestep::abi
