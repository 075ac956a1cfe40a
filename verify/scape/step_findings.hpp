// What came of one step of a trace of SCAPE or AdamS.
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

/// E of section 21 at one step that was taken, where a trace says it: the steps use it, and it is held
/// against what they have led to.
struct ScaleFound {
    int recorded = 0; ///< E that it was scaled by
    /// The greatest exponent that it had itself, of what is held: at REL any of these, or none.
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

/// Goes through the steps that were taken.
class ScaleJudge {
  public:
    explicit ScaleJudge(const TraceHead& head)
        : begins_(head.extent.begin == 0),
          holds_all_(head.problem.layout.size() == head.whole().layout.size()) {}

    /// What is wrong with E of the next one, or "".
    [[nodiscard]] std::string judge(const ScaleFound& found);

  private:
    bool begins_; ///< the next step is the first of the run
    bool holds_all_;
    std::optional<ScaleFound> before_;
};

/// Of the mean gradient before clipping.
struct GradientNorm {
    double squares = 0.0;           ///< of what is held, their sum
    std::optional<double> recorded; ///< of the whole, where what is held is a sample

    [[nodiscard]] double norm() const { return recorded.value_or(std::sqrt(squares)); }
};

/// What came of one step: of all coordinates, or of those of a piece.
struct StepFindings {
    std::array<std::vector<Finding>, result_kinds.size()> kinds;
    std::optional<reference::scape::RefusedStep>
        refused;                          ///< then its results must be what they were before
    std::string halted;                   ///< why the reference goes no further
    std::optional<GradientNorm> gradient; ///< none where nothing clips
    std::optional<ScaleFound> scale;      ///< none where the trace says nothing of it
    MaskStepShifts mask_shifts;           ///< of masks that are wrong
    Index updates = 0;                    ///< of parameters on the mask
    Index hidden_updates = 0; ///< of them, those that are within the parameter's limit: none would pass

    [[nodiscard]] const std::vector<Finding>& of(const ResultKind& kind) const {
        return kinds[static_cast<std::size_t>(kind.result)];
    }
};

/// Of two pieces that follow each other; `offset` is where the second begins. Throws NotByPieces where they
/// do not say the same things.
void append(StepFindings& into, StepFindings piece, Index offset);

} // namespace truestep::verify::scape
