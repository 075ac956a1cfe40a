#pragma once

#include <string>
#include <vector>

#include <truestep/verify/level.hpp>
#include <truestep/verify/trace.hpp>

#include "findings.hpp"

namespace truestep::verify {

/// What the wrong values of a run have in common, whoever made the mistake: a factor that is the number of
/// ranks, masks of another step.
class Hints {
  public:
    Hints(const TraceHead& head, const Level& level) : workers_(head.problem.workers), level_(level) {}

    /// The steps in their order. `parted`: has the run parted from the reference by now?
    void see(const StepFindings& found, bool parted);
    /// One each; none of a run that is right.
    [[nodiscard]] std::vector<std::string> lines() const;

  private:
    /// Of a mask, over all steps.
    struct Slipped {
        Index wrong = 0;       ///< segments
        Index explained = 0;   ///< of them, those of a step whose mask is the other step's
        Index coordinates = 0; ///< that are wrong in those
        Index steps = 0;       ///< of that kind

        void add(const MaskSlip& one);
        [[nodiscard]] bool tells() const;
        [[nodiscard]] std::string count() const;
    };

    void tell_scales(const StepFindings& found);
    void tell_values(const ResultKind& kind, Index wrong, Index scaled, bool divided);
    void tell_steps(Index wrong, Index scaled, bool divided);

    int workers_;
    Level level_;
    Index step_ = 0;
    bool told_ = false; ///< the factors, of the step at which the run parts
    std::vector<std::string> scales_;
    Slipped early_;
    Slipped late_;
};

} // namespace truestep::verify
