#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/training/run.hpp>

#include "peers/peer.hpp"

namespace truestep::training {

/// A run between two of its steps.
struct Checkpoint {
    std::size_t step = 0;
    std::vector<Curve::Point> points;
    std::vector<std::uint64_t> sent; ///< bytes, by rank
    std::vector<peers::State> ranks;
};

/// Everything that determines a run's bits, except the machine. A continued run must have the same.
[[nodiscard]] nlohmann::ordered_json identity_of(const Text& text, const Plan& plan,
                                                 const std::string& optimizer, std::uint64_t seed);

/// The file of this optimizer and seed: "scape:0.1.seed-4.safetensors".
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& folder,
                                                    const std::string& optimizer, std::uint64_t seed);

/// Replaces an earlier file as a whole.
void save(const std::filesystem::path& path, const nlohmann::ordered_json& identity,
          const Checkpoint& checkpoint);

/// Returns nothing if there is no file. Throws truestep::Error if it is damaged or belongs to
/// another run.
[[nodiscard]] std::optional<Checkpoint> load(const std::filesystem::path& path,
                                             const nlohmann::ordered_json& identity);

} // namespace truestep::training
