#pragma once

#include <optional>
#include <vector>

#include <truestep/verify/trace.hpp>
#include <truestep/verify/verdict.hpp>

#include "findings.hpp"

namespace truestep::verify {

/// Makes rows, and the first divergence, of what came of the steps.
class Teller {
  public:
    explicit Teller(const TraceHead& head);

    /// The steps in their order.
    void tell(const StepFindings& found);

    [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
    [[nodiscard]] const std::optional<Divergence>& first() const { return first_; }
    /// Steps that were refused before the first divergence.
    [[nodiscard]] Index refused() const { return refused_; }

  private:
    void add(const ResultKind& kind, const std::vector<Finding>& findings, Index eligible_values);
    void judge_norm(const StepFindings& found);
    void judge_scale(const StepFindings& found);
    /// A refused step changes nothing: every recorded result must be what it was before.
    void add_refused(const StepFindings& found);
    [[nodiscard]] Divergence divergence(const ResultKind& kind, Phase phase, const Finding& finding) const;
    [[nodiscard]] int owner_of(Index index) const;
    void add_divergence(Divergence divergence);

    const problem::Problem& problem_;
    ScaleJudge scales_;
    Index step_ = 0;
    Index refused_ = 0;
    std::vector<Row> rows_;
    std::optional<Divergence> first_;
};

} // namespace truestep::verify
