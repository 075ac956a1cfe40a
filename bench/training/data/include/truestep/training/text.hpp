#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace truestep::training {

/// A text to learn from, and one to measure on: symbols from 0 to `symbols` - 1.
struct Text {
    std::string name;
    std::size_t symbols = 0;
    std::vector<std::uint8_t> learned;
    std::vector<std::uint8_t> measured;
    std::optional<double> entropy; ///< nats a symbol, if known: no model can do better on average
};

/// A text of a file's bytes. The bytes that occur are its symbols, in ascending order. The first
/// `share` is learned from, the rest is measured on. Throws truestep::Error for an unsuitable file.
[[nodiscard]] Text text_of_file(const std::filesystem::path& path, double share);

/// A file, nine tenths of which are learned from, or a synthetic text: "synthetic",
/// "synthetic:SEED", "synthetic:SEED,symbols=16,kinds=4". Throws truestep::Error, one line.
[[nodiscard]] Text text_named(const std::string& name);

} // namespace truestep::training
