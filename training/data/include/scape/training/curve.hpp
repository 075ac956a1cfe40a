#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace scape::training {

/// One training run, as it is drawn and judged: the loss on the measured text, in nats a symbol, after some
/// of its steps.
struct Curve {
    struct Point {
        std::size_t step = 0;
        double loss = 0;
        std::uint64_t bytes = 0; ///< sent by all ranks so far
    };
    std::string optimizer;  ///< as it was asked for: "scape density=0.01"
    std::uint64_t seed = 0; ///< of the start and of the data; runs of one seed are a pair
    std::vector<Point> points;
};

} // namespace scape::training
