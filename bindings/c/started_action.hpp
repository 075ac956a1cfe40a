// Starts functions that the caller provides for communicators and peers, and waits for them.
#pragma once

#include <string>
#include <utility>

#include <truestep/distributed/communicator.hpp>
#include <truestep/problem/error.hpp>

#include "outcome.hpp"

namespace truestep::abi {

/// An action that the caller's functions have started. It is always waited for once, since its
/// memory is about to go.
template <class Functions>
class StartedAction {
  public:
    /// `start` sets its argument, or returns an error, with which `what` did not start. `waited`
    /// names the wait, which may fail.
    template <class Start>
    StartedAction(const Functions& functions, const std::string& what, std::string waited,
                  const Start& start)
        : functions_(functions), waited_for_(std::move(waited)) {
        clear_error();
        if (start(&handle_) != 0)
            fail(what + " could not be started");
    }
    StartedAction(const StartedAction&) = delete;
    StartedAction& operator=(const StartedAction&) = delete;
    ~StartedAction() {
        if (!waited_)
            functions_.wait(functions_.self, handle_);
    }

    void wait() {
        if (come_)
            return;
        clear_error();
        if (std::exchange(waited_, true) || functions_.wait(functions_.self, handle_) != 0)
            fail(waited_for_ + " has failed");
        come_ = true;
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        const std::string said = last_error();
        throw distributed::Aborted("rank " + std::to_string(functions_.rank) + ": " + what +
                                   (said.empty() ? "" : ": " + said));
    }

    const Functions functions_;
    const std::string waited_for_;
    void* handle_ = nullptr;
    bool waited_ = false;
    bool come_ = false;
};

/// Checks a struct of the caller's functions; `name` is the struct's. Throws truestep::Error.
template <class Functions>
void check_place(const Functions& functions, const std::string& name) {
    need_size(functions.struct_size, sizeof functions, name.c_str());
    if (functions.size < 1 || functions.rank < 0 || functions.rank >= functions.size)
        throw Error(name + ": rank is " + std::to_string(functions.rank) + " of " +
                    std::to_string(functions.size) + "; ranks are 0 to size - 1");
}

} // namespace truestep::abi
