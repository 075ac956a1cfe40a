// Lets all ranks throw where one of them cannot do its part.
#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <truestep/problem/error.hpp>

namespace truestep::distributed {

/// Does the work on this rank, and throws what it throws. Where it fails on other ranks alone, this throws
/// an Error that names the first of them. `ranks` is a Communicator or Peers, whose ranks all call it.
template <class Ranks, class Work>
void throws_on_all(Ranks& ranks, const Work& work) {
    std::array<char, 400> reason{};
    std::exception_ptr own;
    try {
        work();
    } catch (const std::exception& error) {
        own = std::current_exception();
        const char* const text = error.what();
        std::snprintf(reason.data(), reason.size(), "%s",
                      *text != '\0' ? text : "it failed without a word");
    }
    std::vector<std::array<char, 400>> reasons;
    try {
        reasons = gather_records(ranks, reason);
    } catch (...) {
        if (!own) // else that is the cause
            throw;
    }
    if (own)
        std::rethrow_exception(own);
    for (std::size_t rank = 0; rank < reasons.size(); ++rank)
        if (reasons[rank][0] != '\0')
            throw Error("rank " + std::to_string(rank) + ": " + reasons[rank].data());
}

} // namespace truestep::distributed
