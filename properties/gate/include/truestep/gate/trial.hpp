// The judging of one case, for any system: it counts what is compared, and keeps the first finding.
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <truestep/gate/property.hpp>
#include <truestep/verify/comparator.hpp>

namespace truestep::gate {

template <class Case>
class TrialOf {
  public:
    /// The tensors name coordinates.
    TrialOf(Case judged_case, std::vector<problem::Tensor> tensors)
        : run(std::move(judged_case)), judged(run), tensors_(std::move(tensors)) {}
    virtual ~TrialOf() = default;

    /// Keeps the first finding and drops later ones.
    void violated(std::int64_t step, const std::string& message, const std::string& details = "") {
        if (!judged.finding)
            judged.finding =
                std::make_shared<PhrasedFinding>(where + message, details, size(step), on_demand(step));
    }

    /// Counts one comparison. `otherwise` is a text, or a function that makes one, since most comparisons
    /// hold.
    void expect(bool holds, std::int64_t step, const auto& otherwise) {
        ++judged.counts.compared;
        judged.counts.wrong += holds ? 0 : 1;
        if (holds)
            return;
        if constexpr (std::invocable<decltype(otherwise)>)
            violated(step, otherwise());
        else
            violated(step, otherwise);
    }

    /// Counts a comparison of vectors. `otherwise` says what they are not. How many differ follows, and the
    /// values around them if there are as many as coordinates.
    bool same(const verify::Comparison& compared, std::int64_t step, const std::string& otherwise) {
        judged.counts.add(
            {compared.compared, compared.mismatched, compared.greatest_ulps, compared.share_of_limit});
        if (compared.ok() || judged.finding)
            return compared.ok();
        std::int64_t coordinates = 0;
        for (const problem::Tensor& tensor : tensors_)
            coordinates += tensor.size;
        const bool named = coordinates > 0 && compared.expected_size == coordinates;
        violated(step, otherwise + ": " + verify::summary(compared),
                 named ? verify::details(compared, problem::Layout(tensors_), "  ") : "");
        return false;
    }

    Case run;
    JudgementOf<Case> judged;

  protected:
    std::string where; ///< begins each message, or ""
    TrialOf(const TrialOf&) = default;
    TrialOf& operator=(const TrialOf&) = default;

    /// How large the run is that a finding at this step is about.
    [[nodiscard]] virtual Finding::Size size(std::int64_t step) const = 0;
    [[nodiscard]] virtual FindingOnDemand on_demand(std::int64_t /*step*/) const { return {}; }

  private:
    std::vector<problem::Tensor> tensors_;
};

/// Ends the judging of a case: there is nothing more to judge.
struct Ended : std::exception {};

/// How a property judges a case, from a function of the system's trial. `fit` changes the case to one that
/// the implementation can be asked.
template <class Trial, class Fit>
auto judged_by(void (*judge)(Trial&), const Fit& fit) {
    return [judge, fit](const Implementation& implementation, const auto& run) -> CaseJudgement {
        Trial trial(implementation, fit(run, implementation));
        try {
            judge(trial);
        } catch (const Ended&) { // judged says why
        }
        return trial.judged;
    };
}
template <class Trial>
auto judged_by(void (*judge)(Trial&)) {
    return judged_by(judge, [](const auto& run, const Implementation&) { return run; });
}

} // namespace truestep::gate
