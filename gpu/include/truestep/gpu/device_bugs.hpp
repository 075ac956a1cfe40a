#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <truestep/gpu/availability.hpp>
#include <truestep/problem/known_bug.hpp>

// How a system numbers the known bugs of gpu/SYSTEM/planted among all of its own: first each in the
// host's form, then each on a device.

namespace truestep::gpu {

struct DeviceMistakes {
    int first = 0; ///< number of the first in the host's form
    std::span<const problem::KnownBug> planted;

    [[nodiscard]] int count() const { return static_cast<int>(planted.size()); }
    [[nodiscard]] bool has(int number) const { return number >= first && number < first + 2 * count(); }
    [[nodiscard]] bool on_device(int number) const { return number >= first + count(); }
    /// Its number in gpu/SYSTEM/planted.
    [[nodiscard]] int planted_as(int number) const {
        return planted[static_cast<std::size_t>((number - first) % count())].number;
    }
    [[nodiscard]] std::vector<problem::KnownBug> listed() const {
        std::vector<problem::KnownBug> all;
        int number = first;
        for (const std::string where :
             {"blocks, in the host's form", simulated() ? "kernels, simulated" : "kernels on a device"})
            for (const problem::KnownBug& one : planted)
                all.push_back({number++, where + ": " + one.name, one.shows, true});
        return all;
    }
};

} // namespace truestep::gpu
