#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <truestep/problem/error.hpp>

namespace truestep::distributed {

/// The number of ranks on each machine. `firsts` holds, for each rank, the first rank on its
/// machine. Throws truestep::Error unless the ranks of a machine are consecutive.
inline std::vector<int> groups_of_machines(const std::vector<int>& firsts) {
    std::vector<int> groups;
    for (std::size_t rank = 0; rank < firsts.size(); ++rank) {
        if (firsts[rank] == static_cast<int>(rank))
            groups.push_back(0);
        else if (firsts[rank] != firsts[rank - 1])
            throw Error("rank " + std::to_string(rank) + " is on the machine of rank " +
                        std::to_string(firsts[rank]) + ", rank " + std::to_string(rank - 1) +
                        " is not; start the ranks of a machine one after another, or give groups");
        ++groups.back();
    }
    return groups;
}

} // namespace truestep::distributed
