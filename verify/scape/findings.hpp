#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <truestep/reference/check.hpp>
#include <truestep/verify/replicas.hpp>
#include <truestep/verify/results.hpp>

#include "scales.hpp"
#include "slips.hpp"

namespace truestep::verify {

/// Of the mean gradient before clipping.
struct GradientNorm {
    double squares = 0.0;           ///< of what is held, their sum
    std::optional<double> recorded; ///< of the whole, where what is held is a sample

    [[nodiscard]] double norm() const { return recorded.value_or(std::sqrt(squares)); }
};

/// What came of one step: of all coordinates, or of those of a piece.
struct StepFindings {
    struct OfKind {
        std::vector<Finding> findings;
        Index eligible = 0; ///< values that are not zero by rule, in each vector
    };

    std::array<OfKind, result_kinds.size()> kinds;
    std::optional<reference::RefusedStep> refused; ///< then its results must be what they were before
    std::string halted;                            ///< why the reference goes no further
    std::optional<GradientNorm> gradient;          ///< none where nothing clips
    std::optional<ScaleFound> scale;               ///< none where the trace says nothing of it
    MaskSlips slips;                               ///< of masks that are wrong
    Index updates = 0;                             ///< of parameters on the mask
    Index hidden_updates = 0; ///< of them, those that are within the parameter's limit: none would pass
};

/// Of two pieces that follow each other; `offset` is where the second begins. Throws NotByPieces where they
/// do not say the same things.
void append(StepFindings& into, StepFindings piece, Index offset);

} // namespace truestep::verify
