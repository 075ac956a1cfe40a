// Properties of SCAPE, and the judging of a case.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <rapidcheck.h>

#include <truestep/gate/property.hpp>
#include <truestep/properties/scape/implementation.hpp>
#include <truestep/properties/scape/kinds.hpp>
#include <truestep/verify/scape/verify_trace.hpp>

namespace truestep::properties::scape {

/// A recorded run: its scenario and what came of it.
struct RecordedRun {
    Scenario scenario;
    RunRecording history;
    ObservedState start; ///< the state of every rank before the first step
};

/// Thrown if a property does not hold.
class Violation : public std::runtime_error {
  public:
    explicit Violation(const std::string& text) : std::runtime_error(text) {}
    Violation(const std::string& text, verify::Divergence at, std::optional<std::size_t> of = std::nullopt)
        : std::runtime_error(text), divergence(std::move(at)), action(of) {}

    std::optional<verify::Divergence> divergence;
    std::optional<std::size_t>
        action; ///< of the last run, that shows it; else the one of the divergence's step
};

using gate::Counts;
using Demands = gate::Demands<Case>;

/// One case put to one implementation: runs it, compares, and records the kinds of the case.
class Trial {
  public:
    Trial(const Implementation& implementation, Case run)
        : run_(std::move(run)), implementation_(implementation) {}

    [[nodiscard]] const Case& run() const { return run_; }
    [[nodiscard]] const Implementation& implementation() const { return implementation_; }

    /// Section 2's steps 1..steps of the case.
    [[nodiscard]] Scenario steps() const { return steps(run_, run_.steps); }
    [[nodiscard]] Scenario steps(const Case& run, Index count) const;

    /// Runs the implementation. A run that did not complete is a violation of any property.
    const RunRecording& operator()(Scenario scenario);
    /// The same, but steps may be refused or halted.
    const RunRecording& tolerant(Scenario scenario);
    /// The same, and the run need not complete.
    const RunRecording& failing(Scenario scenario);

    void classify(bool is, gate::Kind<Case> kind) { judged_.kind(is, kind); }

    /// For reasons that show only in the run: the property says nothing about this implementation.
    void says_nothing(const std::string& why) {
        judged_.kinds.insert(std::string(gate::nothing_said) + why);
    }

    /// From here on the comparisons are about the last run after this action.
    void looks_at(std::size_t action) { action_ = action; }

    // Comparisons, which throw Violation.
    void expect(bool holds, const std::string& otherwise) const;
    void expect_at(bool holds, Index step, Index coordinate, const std::string& otherwise,
                   int rank = -1) const;
    void same_bits(verify::scape::Phase phase, const std::string& result, Index step, int rank,
                   const std::vector<float>& expected, const std::vector<float>& actual);
    void same_mask(const std::string& result, Index step, int rank,
                   const std::vector<std::uint8_t>& expected, const std::vector<std::uint8_t>& actual);
    void same_view(Index step, int rank, const ObservedState& expected, const ObservedState& actual,
                   bool with_mask = true);
    void count(const Counts& counts) { judged_.counts.add(counts); }

    [[nodiscard]] const gate::CaseJudgement& judged() const { return judged_; }
    [[nodiscard]] const std::deque<RecordedRun>& runs() const { return runs_; }

  private:
    void same_on_all_ranks(const RunRecording& ran);
    void compared(const verify::Comparison& comparison, verify::scape::Phase phase,
                  const std::string& result, Index step, int rank);

    Case run_;
    const Implementation& implementation_;
    std::deque<RecordedRun> runs_; ///< a deque, since references to its elements are kept
    gate::JudgementOf<Case> judged_;
    std::optional<std::size_t> action_;
};

/// A statement that must hold in every case.
struct Property {
    int number = 0;   ///< in section 8; 0: a comparison with the reference
    std::string name; ///< "mask.order"
    std::string says; ///< one sentence
    std::function<rc::Gen<Case>()> cases;
    std::function<void(Trial&)> holds; ///< throws Violation
    Demands at_least;
    /// Why it does not apply to an implementation; empty if it does.
    std::function<std::string(const Implementation&)> skipped = [](const Implementation&) {
        return std::string();
    };
    /// Changes a case to one that it can judge.
    std::function<void(Case&)> needs = [](Case&) {};
    /// Larger cases that are tried beside the drawn ones.
    std::vector<Case> also{};
};

/// All properties, in the order in which they are tried and reported.
[[nodiscard]] const std::vector<Property>& all_properties();

/// A case in which a property does not hold.
struct Counterexample {
    Case run;
    Violation violation;
    std::deque<RecordedRun> runs;
};

/// The gate's judgement of one case with one implementation.
[[nodiscard]] gate::CaseJudgement judged(const Implementation& implementation, const Property& property,
                                         const Case& run);

} // namespace truestep::properties::scape
