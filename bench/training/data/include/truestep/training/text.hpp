#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace truestep::training {

/// What is learned from and what is measured on: symbols from 0 to `symbols` - 1.
struct Text {
    std::string name;
    std::size_t symbols = 0;
    std::vector<std::uint8_t> learned;
    std::vector<std::uint8_t> measured;
    std::optional<double> entropy; ///< nats a symbol: no model can do better on average; where it is known
};

/// A file's bytes, of which those that occur are the symbols, in ascending order. The first `share` of it
/// is learned from, the rest is measured on. Throws truestep::Error for what is no such text.
[[nodiscard]] Text text_of_file(const std::filesystem::path& path, double share);

/// A file, of which nine tenths are learned from, or a made-up text: "synthetic", "synthetic:SEED",
/// "synthetic:SEED,symbols=16,kinds=4". Throws truestep::Error, one line.
[[nodiscard]] Text text_named(const std::string& name);

} // namespace truestep::training
