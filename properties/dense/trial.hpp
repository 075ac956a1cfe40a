// One case under judgement.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <truestep/gate/trial.hpp>

#include "implementation.hpp"

namespace truestep::properties::dense {

/// A state in the order of the parameters, put together from what the ranks own; +0 where nothing is kept.
struct Whole {
    Index steps = 0;
    Floats w;
    Floats m;
    Floats v;
    std::vector<int> owners; ///< how many ranks own a coordinate

    [[nodiscard]] bool is_shared() const {
        return std::ranges::any_of(owners, [](int count) { return count > 1; });
    }
};

[[nodiscard]] Whole whole_of(const std::vector<RankRecord>& records, Index step, bool restarted,
                             std::size_t size);

class Trial : public gate::TrialOf<Case> {
  public:
    Trial(const gate::Implementation& implementation, const Case& judged_case);

    [[nodiscard]] std::vector<RankRecord> run(const Scenario& of) const { return candidate_.run(of); }
    /// Runs a scenario to its end. Ends the trial, with a finding, if a rank did not get there.
    /// It may halt unless a run that is to have the same bits did not.
    [[nodiscard]] std::vector<RankRecord> completed(const Scenario& of, bool may_halt = true);

    /// Compares bits. `what` is as "the parameters of rank 1"; only the first difference is reported.
    bool same(const Floats& expected, const Floats& actual, Index step, const std::string& what,
              const std::string& whose);
    bool same(const Whole& expected, const Whole& actual, Index step, const std::string& whose);
    /// Compares the parameters of all ranks after each step, and the states.
    void same(const std::vector<RankRecord>& expected, const std::vector<RankRecord>& actual,
              const std::string& whose);
    /// Runs the case's scenario and this one, and compares them so.
    void same_as(const Scenario& other, const std::string& whose) {
        const std::vector<RankRecord> own = completed(scenario);
        same(completed(other, false), own, whose);
    }
    /// Reports a comparison that was made elsewhere.
    bool same(const verify::Comparison& compared, Index step, const std::string& what,
              const std::string& whose);
    void kind(bool is, gate::Kind<Case> one) { judged.kind(is, one); }
    [[nodiscard]] VisibleState visible() const { return candidate_.visible(); }
    [[nodiscard]] bool is_exact() const { return candidate_.level() == verify::LevelKind::exact; }
    /// A program divides the state as it likes.
    [[nodiscard]] bool is_program() const { return candidate_.communicator() == "program"; }
    [[nodiscard]] bool takes(int ranks) const { return candidate_.takes(ranks); }
    [[nodiscard]] problem::Layout layout() const { return layout_of(scenario.problem); }
    [[nodiscard]] Whole whole(const std::vector<RankRecord>& records, Index step,
                              bool restarted = false) const {
        return whole_of(records, step, restarted, scenario.start.size());
    }

    const Case& run_case = TrialOf::run;
    Scenario scenario;

  protected:
    [[nodiscard]] gate::Finding::Size size(Index step) const override;

  private:
    const Implementation& candidate_;
};

using Judge = void (*)(Trial& trial);
/// A property of this system's cases.
[[nodiscard]] gate::Property property(
    int number, const std::string& name, const std::string& says, Judge judge,
    const gate::Demands<Case>& at_least,
    const std::function<Case(Case)>& change = [](Case run) { return run; });

/// The nearest case without restarts and refused steps.
[[nodiscard]] Case uninterrupted(Case run);
/// The nearest one of that rule alone, whose numbers a double can follow from one state to the next.
[[nodiscard]] Case by_hand(Case run, Rule rule);
[[nodiscard]] Case with_several_ranks(Case run);

[[nodiscard]] bool is_muon(const Problem& problem, std::size_t tensor);
/// What a flat vector has of one tensor.
[[nodiscard]] Floats part_of(const Problem& problem, std::size_t tensor, const Floats& whole);

/// Changes of one setting each to another possible value: of the run, a tensor and the last group.
[[nodiscard]] std::vector<std::pair<std::string, std::function<void(Problem&)>>>
changes_of(const Problem& problem);

// The families, in the order in which they are tried.
[[nodiscard]] std::vector<gate::Property> sharding_properties();
[[nodiscard]] std::vector<gate::Property> rule_properties();
[[nodiscard]] std::vector<gate::Property> muon_properties();
[[nodiscard]] std::vector<gate::Property> setting_properties();
[[nodiscard]] std::vector<gate::Property> interruption_properties();
[[nodiscard]] gate::Property reference_property();

} // namespace truestep::properties::dense
