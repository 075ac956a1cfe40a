#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <scape/problem/problem.hpp>
#include <scape/reference/vector.hpp>

namespace scape::verify {

using problem::Index;
using reference::Coordinates;
using reference::PerRank;
using reference::Vector;

/// Where in a step (section 4) a value is made.
enum class Phase { check, local, mask, exchange, reconstruct, residual, clip, update };

[[nodiscard]] std::string_view name(Phase phase);

/// What a trace can hold of a step, in the order in which the step makes it.
enum class Result { local, mask, next_mask, exchanged, reconstructed, residual, first_moment, parameters };

struct ResultKind {
    Result result;
    std::string_view
        name; ///< its tensor is step/<number>/<name>, with /rank<r> behind where each rank has one
    bool per_rank;
    bool is_mask;
    bool intermediate; ///< not in section 9: recorded on request, to tell the phases apart more finely
};

constexpr std::array<ResultKind, 8> result_kinds{{
    {Result::local, "local", true, false, true},
    {Result::mask, "mask", false, true, false},
    {Result::next_mask, "next_mask", false, true, false},
    {Result::exchanged, "exchanged", false, false, true},
    {Result::reconstructed, "reconstructed", false, false, true},
    {Result::residual, "residual", true, false, false},
    {Result::first_moment, "first_moment", false, false, false},
    {Result::parameters, "parameters", false, false, false},
}};

[[nodiscard]] constexpr const ResultKind& kind_of(Result result) {
    return result_kinds[static_cast<std::size_t>(result)];
}
static_assert(kind_of(Result::local).result == Result::local &&
              kind_of(Result::parameters).result == Result::parameters);

/// What SCAPE says is the same on all ranks. (The intermediates that are not per rank are recorded once.)
[[nodiscard]] constexpr bool is_replicated(const ResultKind& kind) {
    return !kind.per_rank && !kind.intermediate;
}

/// How a trace holds what has to be the same on all ranks.
enum class Replicas {
    none,         ///< once: that it is the same everywhere is taken on trust
    copies,       ///< each rank's own
    fingerprints, ///< once, and the fingerprint of each rank's own
};

[[nodiscard]] std::string_view name(Replicas replicas);
[[nodiscard]] Replicas parse_replicas(const std::string& text);

/// The phase that a wrong value of this result speaks of.
[[nodiscard]] Phase phase_of(Result result, const problem::Problem& problem);

/// "step/0001/residual/rank2".
[[nodiscard]] std::string tensor_name(const ResultKind& kind, Index step, int rank);
/// A rank's own copy of a replicated result: "step/0001/parameters/rank2".
[[nodiscard]] std::string copy_name(const ResultKind& kind, Index step, int rank);
/// "step/0001/parameters/fingerprint".
[[nodiscard]] std::string fingerprint_name(const ResultKind& kind, Index step);
[[nodiscard]] std::string gradient_name(Index step, int rank);

/// One step's results, full length each. What the algorithm does not have is empty.
template <class T>
struct StepResults {
    PerRank<T> local;
    Coordinates mask;
    Coordinates next_mask;
    Vector<T> exchanged;
    Vector<T> reconstructed;
    PerRank<T> residual;
    Vector<T> first_moment;
    Vector<T> parameters;

    /// A result's values for one rank; nullptr where the algorithm has none. Not for masks.
    [[nodiscard]] const Vector<T>* values(Result result, int rank) const {
        const auto of_rank = [rank](const PerRank<T>& all) {
            return static_cast<std::size_t>(rank) < all.size() ? &all[static_cast<std::size_t>(rank)]
                                                               : nullptr;
        };
        const auto if_any = [](const Vector<T>& one) { return one.size() > 0 ? &one : nullptr; };
        switch (result) {
        case Result::local:
            return of_rank(local);
        case Result::residual:
            return of_rank(residual);
        case Result::exchanged:
            return if_any(exchanged);
        case Result::reconstructed:
            return if_any(reconstructed);
        case Result::first_moment:
            return if_any(first_moment);
        case Result::parameters:
            return if_any(parameters);
        case Result::mask:
        case Result::next_mask:
            break;
        }
        return nullptr;
    }

    [[nodiscard]] const Coordinates& mask_of(Result result) const {
        return result == Result::mask ? mask : next_mask;
    }
};

/// The bits of a mask as section 9 stores them: bit i is (byte i/8 >> i%8) & 1.
[[nodiscard]] std::vector<std::uint8_t> to_bits(const Coordinates& mask, Index size);
/// The coordinates of the bits below `size`.
[[nodiscard]] Coordinates to_coordinates(const std::vector<std::uint8_t>& bits, Index size);

} // namespace scape::verify
