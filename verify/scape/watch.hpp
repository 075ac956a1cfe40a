#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <truestep/problem/density.hpp>
#include <truestep/verify/replicas.hpp>
#include <truestep/verify/seen.hpp>
#include <truestep/verify/trace.hpp>

#include "findings.hpp"

namespace truestep::verify {

/// What a page draws of a run of SCAPE or AdamS, gathered step by step: curves from what its trace holds,
/// maps from what was compared.
class Watch {
  public:
    explicit Watch(const TraceReader& trace);

    void see(Index step, const StepFindings& found);
    [[nodiscard]] Seen seen() const { return {curves(), maps_}; }

  private:
    using Values = std::vector<std::optional<double>>;

    void see_mask(Index step);
    [[nodiscard]] std::vector<Curve> curves() const;
    [[nodiscard]] std::vector<CurveLine> by_rank(const std::vector<Values>& values) const;

    const TraceReader& trace_;
    std::vector<DifferenceMap> maps_; ///< by result
    const problem::Problem& problem_;
    problem::DensitySchedule density_;
    Index selective_ = 0;              ///< coordinates of segments that are not always dense
    std::vector<std::uint8_t> before_; ///< the mask of the step before, as bits
    std::vector<Values> gradient_;     ///< norms, by rank
    std::vector<Values> residual_;
    Values asked_;
    Values kept_;
    Values overlap_;
    Values clip_;
    Values sent_values_; ///< over dense
    Values sent_;        ///< with the mask
};

} // namespace truestep::verify
