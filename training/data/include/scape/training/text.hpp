#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace scape::training {

/// What is learned from and what is measured on: symbols from 0 to `symbols` - 1.
struct Text {
    std::string name;
    std::size_t symbols = 0;
    std::vector<std::uint8_t> learned;
    std::vector<std::uint8_t> measured;
    std::optional<double> entropy; ///< nats a symbol: no model can do better on average; where it is known
};

} // namespace scape::training
