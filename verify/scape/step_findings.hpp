// The findings on one step of a trace of SCAPE or AdamS.
#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <truestep/reference/scape/check.hpp>
#include <truestep/verify/replicas.hpp>
#include <truestep/verify/scape/results.hpp>
#include <truestep/verify/scape/trace.hpp>
#include <truestep/verify/scape/yardstick.hpp>

#include "masks.hpp"

namespace truestep::verify::scape {

/// E of section 21 at one step, if a trace holds it: the steps use it, and it is compared with what
/// the steps before led to.
struct ScaleFound {
    int recorded = 0; ///< E of its scale
    /// The greatest exponent of the values held at this step: at REL any of these, or none.
    int least = reference::scape::no_exponent;
    int most = reference::scape::no_exponent;
};

template <class T>
[[nodiscard]] ScaleFound scale_found(int recorded, const PerRank<T>& c, const Coordinates& S) {
    const auto own = reference::scape::exponent_on(S, c);
    if constexpr (requires { own.least; }) // a scalar that carries its bound
        return {recorded, own.least, own.most};
    else
        return {recorded, own, own};
}

/// Judges the scales of the steps in order.
class ScaleJudge {
  public:
    explicit ScaleJudge(const TraceHead& head)
        : begins_(head.extent.begin == 0),
          holds_all_(head.problem.layout.size() == head.whole().layout.size()) {}

    /// The error in E of the next step, or "".
    [[nodiscard]] std::string judge(const ScaleFound& found);

  private:
    bool begins_; ///< the next step is the first of the run
    bool holds_all_;
    std::optional<ScaleFound> before_;
};

/// The norm of the mean gradient before clipping.
struct GradientNorm {
    double squares = 0.0;           ///< the sum over the values held
    std::optional<double> recorded; ///< of the whole, if only a sample is held

    [[nodiscard]] double norm() const { return recorded.value_or(std::sqrt(squares)); }
};

/// The findings on one step: for all coordinates, or those of a piece.
struct StepFindings {
    std::array<std::vector<Finding>, result_kinds.size()> kinds;
    std::optional<reference::scape::RefusedStep> refused; ///< then its results must equal those before it
    std::string halted;                                   ///< why the reference stops
    std::optional<GradientNorm> gradient;                 ///< none without clipping
    std::optional<ScaleFound> scale;                      ///< none if the trace does not hold it
    MaskStepShifts mask_shifts;                           ///< of wrong masks
    Index updates = 0;                                    ///< of parameters on the mask
    Index hidden_updates = 0; ///< of them, those within the parameter's limit: leaving them out would pass

    [[nodiscard]] const std::vector<Finding>& of(const ResultKind& kind) const {
        return kinds[static_cast<std::size_t>(kind.result)];
    }
};

/// Appends the findings of the next piece; `offset` is where it begins. Throws NotByPieces if the
/// two do not have the same findings.
void append(StepFindings& into, StepFindings piece, Index offset);

} // namespace truestep::verify::scape
