#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace truestep::verify {

/// take(i, make(i)) for each i below `count`: made by several threads at once, taken one by one in i's
/// order, so that the threads do not show. The first exception ends it, and is thrown.
template <class Make, class Take>
void in_order(std::size_t count, int threads, const Make& make, const Take& take) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    std::mutex mutex; // of what follows
    std::exception_ptr failure;
    std::map<std::size_t, std::invoke_result_t<Make, std::size_t>> waiting; // for those before them
    std::size_t taken = 0;

    const auto work = [&] {
        try {
            for (std::size_t i = next++; i < count && !failed; i = next++) {
                auto made = make(i);
                const std::lock_guard lock(mutex);
                waiting.emplace(i, std::move(made));
                for (auto first = waiting.begin(); first != waiting.end() && first->first == taken;
                     first = waiting.erase(first), ++taken)
                    take(taken, std::move(first->second));
            }
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (!failed.exchange(true))
                failure = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> all;
        for (std::size_t i = 0; i < std::min(static_cast<std::size_t>(std::max(1, threads)), count); ++i)
            all.emplace_back(work);
    }
    if (failure)
        std::rethrow_exception(failure);
}

} // namespace truestep::verify
