// The state of one side of a MAPL boundary between steps.
#pragma once

#include <span>

#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/problem/mapl/settings.hpp>

namespace truestep::distributed::mapl {

/// The state of one side of a boundary in a checkpoint, between two steps. Any caller may set it.
struct EndState {
    Index steps = 0;         ///< finished so far
    Index micro_batches = 0; ///< passed through in all steps
    Floats a{};              ///< A, D x r, the same bits on both sides
    Floats m{};              ///< D x r on the sender, empty on the receiver
    Floats anchor{};         ///< this side's E, V x r, empty without anchors
    Floats rows{}; ///< this side's P, r x D; made from the seed if there are anchors and it is empty
    /// The codebooks of the decoder, which the sender mirrors, Gr R K r / Gr; made from the seed if
    /// empty. Unused without quantization.
    Floats codebooks{};
    Floats learned{}; ///< the sender's copy, which learns; starts as `codebooks` if empty

    void fields(auto& visit) { visit(steps, micro_batches, a, m, anchor, rows, codebooks, learned); }
};

/// The state in which both sides begin: equal settings give equal bits. The caller provides E, if
/// there are anchors.
[[nodiscard]] EndState first_state(const Settings& settings, Side side, std::span<const float> subspace,
                                   std::span<const float> anchor);

} // namespace truestep::distributed::mapl
