// Work that fails on all ranks where it fails on one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>

#include <truestep/problem/error.hpp>

namespace truestep::distributed {

/// Does the work on this rank. Throws what it threw here, or, if it failed on others alone, Error that
/// names the first of them. `ranks`: a Communicator or Peers, whose ranks all come here.
template <class Ranks, class Work>
void together(Ranks& ranks, const Work& work) {
    std::array<char, 400> reason{};
    std::exception_ptr own;
    try {
        work();
    } catch (const std::exception& error) {
        own = std::current_exception();
        std::snprintf(reason.data(), reason.size(), "%s", error.what());
    }
    const auto reasons = gather_records(ranks, reason);
    if (own)
        std::rethrow_exception(own);
    for (std::size_t rank = 0; rank < reasons.size(); ++rank)
        if (reasons[rank][0] != '\0')
            throw Error("rank " + std::to_string(rank) + ": " + reasons[rank].data());
}

} // namespace truestep::distributed
