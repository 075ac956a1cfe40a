#pragma once

#include <span>

#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/problem/mapl/settings.hpp>

namespace truestep::distributed::mapl {

/// What a checkpoint holds of one side of a boundary, between two steps. Anybody may set it.
struct EndState {
    Index steps = 0;         ///< that have ended
    Index micro_batches = 0; ///< that have gone through in all of them
    Floats a{};              ///< A, D x r, the same bits on both sides
    Floats m{};              ///< D x r on the sender, nothing on the receiver
    Floats anchor{};         ///< this side's E, V x r, or nothing without anchors
    Floats rows{}; ///< this side's P, r x D; where there are anchors and none is given, from the seed
    /// What the receiver decodes with and the sender encodes with, Gr R K r / Gr; from the seed where none
    /// is given. Nothing without quantization.
    Floats codebooks{};
    Floats learned{}; ///< the sender's own copy, which goes ahead; like `codebooks` where none is given

    void fields(auto& visit) { visit(steps, micro_batches, a, m, anchor, rows, codebooks, learned); }
};

/// Where both sides begin: from the same settings the same bits. E, if there are anchors, is the caller's.
[[nodiscard]] EndState first_state(const Settings& settings, Side side, std::span<const float> subspace,
                                   std::span<const float> anchor);

} // namespace truestep::distributed::mapl
