// The drawing of a shrunk case for the report's page.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace truestep::gate {

/// A row of the drawing: one kind of value that every coordinate has, one row per rank or one for all.
struct Lane {
    enum class Kind { bits, floats, counts };
    /// One text per coordinate: "0" or "1" for bits, a whole number for counts, any number for floats.
    using Values = std::vector<std::string>;

    std::string name;  ///< the label before the row: "parameters"
    std::string title; ///< what it is, in a few words; for bits, what a 1 means
    Kind kind = Kind::floats;
    bool shared = false;            ///< one row for all ranks
    std::vector<Values> values{};   ///< one per rank, in their order; only one if shared
    std::vector<Values> expected{}; ///< the reference's; empty, as a whole or in part, if not available
};

/// The shrunk problem at the time of its failure, as a picture with the lanes of its system.
struct Drawing {
    struct Tensor {
        std::string name;
        std::int64_t begin = 0;
        std::int64_t end = 0;
        std::string note{}; ///< what else to know about it, or ""
    };
    struct Segment {
        std::int64_t begin = 0;
        std::int64_t end = 0;
        int owner = 0;
    };

    /// Larger problems are not drawn.
    static constexpr std::int64_t most_coordinates = 64;
    static constexpr int most_ranks = 16;

    std::string after; ///< "step 3"
    std::int64_t size = 0;
    int ranks = 0;
    std::vector<Tensor> tensors{};
    std::vector<Segment> segments{}; ///< none: no rank owns a part
    std::vector<Lane> lanes{};       ///< from top to bottom
};

/// Floats as a lane shows them: the shortest text of each that reads back as the same float.
[[nodiscard]] Lane::Values texts(std::span<const float> values);

/// `drawing` of docs/results.md; null for a problem that is too large. Throws truestep::Error if a lane
/// does not have as many values as there are ranks and coordinates.
[[nodiscard]] nlohmann::ordered_json drawing_json(const Drawing& drawing);

} // namespace truestep::gate
