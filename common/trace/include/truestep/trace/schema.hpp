#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/problem/layout.hpp>
#include <truestep/storage/safetensors.hpp>

/// The contents of a system's trace (specification, section 9): each system declares them, and this
/// library reads and writes them.
namespace truestep::trace {

using problem::Index;
using storage::DataType;

/// A vector of the model's length that belongs to every step. Its tensor is step/<number>/<name>,
/// followed by /rank<r> where each rank has one.
struct Kind {
    std::string_view name;
    bool per_rank = false;
    bool is_mask = false;      ///< a bit a coordinate, eight in a byte; else fp32
    bool intermediate = false; ///< recorded on request, to tell the phases of a step apart more finely
    Index part = 0;            ///< its number in a step, from 1 on: "gradient.2"; 0: the only one
};

/// The name with its part, such as "gradient.2".
[[nodiscard]] std::string name(const Kind& kind);

/// Whether the result must be the same on all ranks. (Intermediates that are not per rank are
/// recorded once.)
[[nodiscard]] constexpr bool is_replicated(const Kind& kind) {
    return !kind.per_rank && !kind.intermediate;
}

/// A tensor's name, such as "step/0001/residual/rank2".
[[nodiscard]] std::string tensor_name(const Kind& kind, Index step, int rank);
/// A rank's own copy of a replicated result: "step/0001/parameters/rank2".
[[nodiscard]] std::string copy_name(const Kind& kind, Index step, int rank);
/// A tensor's name, such as "step/0001/parameters/fingerprint".
[[nodiscard]] std::string fingerprint_name(const Kind& kind, Index step);

/// How a trace holds results that must be the same on all ranks.
enum class Replicas {
    none,         ///< once: that all ranks agree is taken on trust
    copies,       ///< each rank's own
    fingerprints, ///< once, and the fingerprint of each rank's own
};

[[nodiscard]] std::string_view name(Replicas replicas);
[[nodiscard]] Replicas parse_replicas(const std::string& text);

/// A tensor that precedes the first step.
struct Series {
    std::string name;
    DataType type = DataType::f64; ///< f64, f32 or, of the bits of a mask, u8
    std::uint64_t count = 0;
    bool optional = false; ///< a trace is complete without it
};

struct Result {
    Kind kind;
    std::string phase; ///< the phase of the step that a wrong value points to
};

struct Schema {
    std::string config; ///< as the writer would write it
    problem::Layout layout;
    int workers = 1;
    Index steps = 1;
    std::vector<Series> series;
    std::vector<Kind> inputs;
    std::vector<Result> results;
    /// Whether a step, or a rank in it, has that input.
    std::function<bool(const Kind&, Index step, int rank)> has_input = [](const Kind&, Index, int) {
        return true;
    };
};

/// The size of a mask in bytes.
[[nodiscard]] constexpr std::uint64_t mask_bytes(Index size) {
    return static_cast<std::uint64_t>((size + 7) / 8);
}

} // namespace truestep::trace
