#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::distributed::in_process {

/// The errors of ranks: the first one that is not an Aborted is the cause, an Aborted its
/// consequence on another rank.
class Errors {
  public:
    /// Call it where an error is handled. Returns its text.
    std::string keep() {
        try {
            throw;
        } catch (const Aborted& error) {
            keep_first(end_);
            return error.what();
        } catch (const std::exception& error) {
            keep_first(cause_);
            return error.what();
        } catch (...) {
            keep_first(cause_);
            return "an error that is not a std::exception";
        }
    }

    void throw_cause() const {
        if (cause_)
            std::rethrow_exception(cause_);
        if (end_)
            std::rethrow_exception(end_);
    }

  private:
    void keep_first(std::exception_ptr& first) {
        const std::lock_guard lock(mutex_);
        if (!first)
            first = std::current_exception();
    }

    std::mutex mutex_;
    std::exception_ptr cause_;
    std::exception_ptr end_;
};

/// Runs the function for each rank in its own thread, with the rank's place among the others, and
/// returns when all have ended. If a rank fails, `end` informs the others.
template <class Place, class Function, class End>
void run_threads(std::vector<std::unique_ptr<Place>> places, const Function& function, const End& end) {
    Errors errors;
    const auto run = [&](Place& place) {
        try {
            function(place);
        } catch (...) {
            end(place, errors.keep());
        }
    };
    {
        const std::size_t size = places.size();
        std::vector<std::jthread> threads;
        threads.reserve(size);
        try {
            for (auto& place : places)
                threads.emplace_back([&run, mine = std::move(place)] { run(*mine); });
        } catch (const std::system_error& error) {
            // Destroying the places of the ranks without a thread ends those with one.
            places.clear();
            throw Error("only " + std::to_string(threads.size()) + " of " + std::to_string(size) +
                        " ranks could be given a thread (" + error.what() + "); use fewer ranks, or MPI");
        }
    }
    errors.throw_cause();
}

} // namespace truestep::distributed::in_process
