#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mapl/settings.hpp>

// The options of bench_pipeline.

namespace truestep::bench::mapl {

using problem::mapl::Index;

struct Options {
    Index size = Index{1} << 20; ///< values of a micro-batch's activations
    Index width = 1024;
    Index micro_batches = 8;
    Index vocabulary = 50257;
    int ranks = 4; ///< stages
    std::vector<std::string> rows{"none", "mapl:8", "mapl:16"};
    int steps = 5;
    std::string communicator = "threads";
    std::string interface;
    std::string title;
    std::string benchmark_out;
    int timeout = 300;

    [[nodiscard]] std::size_t tokens() const { return static_cast<std::size_t>(size / width); }
};

/// D / r, which is 8 for "mapl:8" and 0 for "none".
inline Index times_of(const std::string& row, Index width) {
    if (row == "none")
        return 0;
    const std::string kind = "mapl:";
    const std::string number = row.starts_with(kind) ? row.substr(kind.size()) : "";
    const bool whole = !number.empty() && number.size() < 10 &&
                       std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
    const Index times = whole ? std::stoll(number) : 0;
    if (times < 1 || width % times != 0)
        throw Error("peer is '" + row +
                    "'; it must be none, or mapl:TIMES with a number that divides the width, " +
                    std::to_string(width));
    return times;
}

} // namespace truestep::bench::mapl
