// The verdict on the steps of a trace of SCAPE or AdamS: rows and the first divergence, what the
// wrong values have in common, and curves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <truestep/problem/density.hpp>
#include <truestep/verify/scape/trace.hpp>
#include <truestep/verify/verdict_builder.hpp>

#include "step_findings.hpp"

namespace truestep::verify::scape {

/// Adds the findings on the steps to the verdict.
class StepVerdicts {
  public:
    StepVerdicts(const TraceHead& head, VerdictBuilder& builder);

    /// Adds the steps in their order.
    void add(const StepFindings& found);

  private:
    void judge_norm(const StepFindings& found);
    /// A refused step changes nothing: every recorded result must be what it was before.
    void add_refused(const StepFindings& found);
    void describe(const ResultKind& kind, Divergence& divergence) const;

    const problem::Problem& problem_;
    VerdictBuilder& builder_;
    ScaleJudge scales_;
    Index step_ = 0;
};

/// What the wrong values of a run have in common, whatever made them: a factor equal to the number
/// of ranks, or masks of another step.
class Hints {
  public:
    Hints(const TraceHead& head, const Level& level) : workers_(head.problem.workers), level_(level) {}

    /// Takes the steps in order. `parted`: has the run differed from the reference by now?
    void see(const StepFindings& found, bool parted);
    /// One line each; empty for a right run.
    [[nodiscard]] std::vector<std::string> lines() const;

  private:
    /// The counts for one mask, over all steps.
    struct ShiftCount {
        Index wrong = 0;       ///< segments
        Index explained = 0;   ///< of them, those that equal the other step's mask
        Index coordinates = 0; ///< wrong coordinates in those
        Index steps = 0;       ///< with such segments

        void add(const MaskStepShift& one);
        [[nodiscard]] bool tells() const;
        [[nodiscard]] std::string count() const;
    };

    void tell_scales(const StepFindings& found);
    void tell_values(const ResultKind& kind, Index wrong, Index scaled, bool divided);
    void tell_steps(Index wrong, Index scaled, bool divided);

    int workers_;
    Level level_;
    Index step_ = 0;
    bool told_ = false; ///< the factors, for the first step that differs
    std::vector<std::string> scales_;
    ShiftCount early_;
    ShiftCount late_;
};

/// The curves that a page draws of a run, gathered step by step from its trace.
class RunPlots {
  public:
    explicit RunPlots(const TraceReader& trace);

    void see(Index step, const StepFindings& found);
    [[nodiscard]] std::vector<Curve> curves() const;

  private:
    using Values = std::vector<std::optional<double>>;

    void see_mask(Index step);
    [[nodiscard]] std::vector<CurveLine> by_rank(const std::vector<Values>& values) const;

    const TraceReader& trace_;
    const problem::Problem& problem_;
    problem::DensitySchedule density_;
    Index selective_ = 0;          ///< coordinates of segments that are not always dense
    Bits before_;                  ///< the mask of the step before, as bits
    std::vector<Values> gradient_; ///< norms, by rank
    std::vector<Values> residual_;
    Values asked_;
    Values kept_;
    Values overlap_;
    Values clip_;
    Values sent_values_; ///< over dense
    Values sent_;        ///< with the mask
};

} // namespace truestep::verify::scape
