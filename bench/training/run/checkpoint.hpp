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

/// All that a run's bits follow from, but the machine: whoever goes on has to have the same.
[[nodiscard]] nlohmann::ordered_json identity_of(const Text& text, const Plan& plan,
                                                 const std::string& optimizer, std::uint64_t seed);

/// Of the run of this optimizer and seed: "scape:0.1.seed-4.safetensors".
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& folder,
                                                    const std::string& optimizer, std::uint64_t seed);

/// What was there before is replaced whole.
void save(const std::filesystem::path& path, const nlohmann::ordered_json& identity,
          const Checkpoint& checkpoint);

/// Nothing if there is no file. Throws truestep::Error if it is damaged or another run's.
[[nodiscard]] std::optional<Checkpoint> load(const std::filesystem::path& path,
                                             const nlohmann::ordered_json& identity);

} // namespace truestep::training
