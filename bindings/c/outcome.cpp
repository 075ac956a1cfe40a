// Turns exceptions into C status codes, and keeps each thread's last error text.
#include "outcome.hpp"

#include <cstddef>
#include <new>

#include <truestep/distributed/gasloc/worker.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/reference/scape/check.hpp>
#include <truestep/report/environment.hpp>

namespace truestep::abi {

namespace {

/// One for each thread. It lives until the thread ends, so that its text stays valid.
std::string& text_of_thread() {
    thread_local std::string text;
    return text;
}

truestep_status ended(const std::exception& error, truestep_status status) {
    set_error(error.what());
    return status;
}

truestep_status status_of_current() {
    try {
        throw;
    } catch (const Error& error) {
        return ended(error, TRUESTEP_ERROR);
    } catch (const distributed::scape::RefusedStep& error) {
        return ended(error, TRUESTEP_REFUSED);
    } catch (const reference::scape::RefusedStep& error) {
        return ended(error, TRUESTEP_REFUSED);
    } catch (const distributed::scape::Halted& error) {
        return ended(error, TRUESTEP_HALTED);
    } catch (const reference::scape::Halted& error) {
        return ended(error, TRUESTEP_HALTED);
    } catch (const distributed::gasloc::Halted& error) {
        return ended(error, TRUESTEP_HALTED);
    } catch (const distributed::Aborted& error) {
        return ended(error, TRUESTEP_ABORTED);
    } catch (const std::bad_alloc&) {
        set_error("out of memory");
        return TRUESTEP_INTERNAL;
    } catch (const std::exception& error) {
        return ended(error, TRUESTEP_INTERNAL);
    }
}

} // namespace

void set_error(const char* text) noexcept {
    try {
        text_of_thread() = one_line(text == nullptr ? "" : text);
    } catch (...) {
        text_of_thread().clear(); // no memory for the text; the status remains
    }
}

const char* last_error() noexcept {
    return text_of_thread().c_str();
}

void clear_error() noexcept {
    text_of_thread().clear();
}

truestep_status failure() noexcept {
    try {
        return status_of_current();
    } catch (...) {
        set_error("an error that is not a std::exception");
        return TRUESTEP_INTERNAL;
    }
}

void need(const void* argument, const char* name) {
    if (argument == nullptr)
        throw Error(std::string(name) + " is NULL; give one");
}

void need_size(std::size_t given, std::size_t wanted, const char* name) {
    if (given != wanted)
        throw Error(std::string(name) + ": its struct_size is " + std::to_string(given) +
                    "; set it to sizeof(" + name + "), " + std::to_string(wanted) + " in this library");
}

extern "C" {

int32_t truestep_abi_version(void) {
    return TRUESTEP_ABI_VERSION;
}

int32_t truestep_abi_minor_version(void) {
    return TRUESTEP_ABI_MINOR_VERSION;
}

const char* truestep_version(void) {
    static const std::string version = report::version();
    return version.c_str();
}

const char* truestep_last_error(void) {
    return last_error();
}

void truestep_set_error(const char* text) {
    set_error(text);
}

} // extern "C"

} // namespace truestep::abi
