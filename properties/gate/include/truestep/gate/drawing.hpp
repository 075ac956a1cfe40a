#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace truestep::gate {

/// One kind of value that every coordinate has: a row of the drawing, of each rank or of all together.
struct Lane {
    enum class Kind { bits, floats, counts };
    /// One text a coordinate: "0" or "1" of bits, a whole number of counts, any number of floats.
    using Values = std::vector<std::string>;

    std::string name;  ///< what stands before it: "parameters"
    std::string title; ///< what it is, in a few words; of bits, what a 1 says
    Kind kind = Kind::floats;
    bool shared = false;            ///< one row for all ranks
    std::vector<Values> values{};   ///< one a rank, in their order; one only if shared
    std::vector<Values> expected{}; ///< of the reference; empty, as a whole or in part: not known
};

/// The shrunk problem at the time of its failure, as a picture of whatever lanes its system has.
struct Drawing {
    struct Tensor {
        std::string name;
        std::int64_t begin = 0;
        std::int64_t end = 0;
        std::string note{}; ///< what else is to be known of it, or ""
    };
    struct Segment {
        std::int64_t begin = 0;
        std::int64_t end = 0;
        int owner = 0;
    };

    /// Larger ones are not drawn.
    static constexpr std::int64_t most_coordinates = 64;
    static constexpr int most_ranks = 16;

    std::string after; ///< "step 3"
    std::int64_t size = 0;
    int ranks = 0;
    std::vector<Tensor> tensors{};
    std::vector<Segment> segments{}; ///< none: no rank owns a part
    std::vector<Lane> lanes{};       ///< from top to bottom
};

/// Floats as a lane shows them: the shortest text that is the same float.
[[nodiscard]] Lane::Values texts(std::span<const float> values);

/// `drawing` of docs/results.md; null for one that is too large. Throws truestep::Error where a lane does
/// not have as many values as there are ranks and coordinates.
[[nodiscard]] nlohmann::ordered_json drawing_json(const Drawing& drawing);

} // namespace truestep::gate
