#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <rapidcheck.h>

#include <truestep/gate/property.hpp>
#include <truestep/properties/scape/case.hpp>
#include <truestep/properties/scape/implementation.hpp>
#include <truestep/verify/scape/verify_trace.hpp>

namespace truestep::properties::scape {

/// What a run was put through, and what came of it.
struct Ran {
    Scenario scenario;
    History history;
    View start; ///< what every rank has before the first step
};

/// A property does not hold.
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

/// One case put to one implementation: runs it, compares, and remembers what kind of case it was.
class Trial {
  public:
    Trial(const Implementation& implementation, Case run)
        : run_(std::move(run)), implementation_(implementation) {}

    [[nodiscard]] const Case& run() const { return run_; }
    [[nodiscard]] const Implementation& implementation() const { return implementation_; }

    /// Section 2's steps 1..steps of the case.
    [[nodiscard]] Scenario steps() const { return steps(run_, run_.steps); }
    [[nodiscard]] Scenario steps(const Case& run, Index count) const;

    /// Puts the implementation through it. A run that did not come to its end violates whatever is asked.
    const History& operator()(Scenario scenario);
    /// The same, but steps may be refused or halted.
    const History& tolerant(Scenario scenario);
    /// The same, and it need not come to its end.
    const History& failing(Scenario scenario);

    void classify(bool is, const std::string& kind) {
        if (is)
            kinds_.insert(kind);
    }

    /// It showed only now that the property says nothing about the implementation, and why.
    void says_nothing(const std::string& why) { classify(true, std::string(gate::nothing_said) + why); }

    /// What is compared from here on is what the last run showed after this action.
    void looks_at(std::size_t action) { action_ = action; }

    // Comparisons, that throw Violation.
    void expect(bool holds, const std::string& otherwise) const;
    void expect_at(bool holds, Index step, Index coordinate, const std::string& otherwise,
                   int rank = -1) const;
    void same_bits(verify::scape::Phase phase, const std::string& result, Index step, int rank,
                   const std::vector<float>& expected, const std::vector<float>& actual);
    void same_mask(const std::string& result, Index step, int rank,
                   const std::vector<std::uint8_t>& expected, const std::vector<std::uint8_t>& actual);
    void same_view(Index step, int rank, const View& expected, const View& actual, bool with_mask = true);
    void count(const Counts& counts) { counts_.add(counts); }

    [[nodiscard]] const std::set<std::string>& kinds() const { return kinds_; }
    [[nodiscard]] const Counts& counts() const { return counts_; }
    [[nodiscard]] const std::deque<Ran>& runs() const { return runs_; }

  private:
    void same_on_all_ranks(const History& ran);
    void compared(const verify::Comparison& comparison, verify::scape::Phase phase,
                  const std::string& result, Index step, int rank);

    Case run_;
    const Implementation& implementation_;
    std::deque<Ran> runs_; ///< whose places stay
    std::set<std::string> kinds_;
    Counts counts_;
    std::optional<std::size_t> action_;
};

/// What must always hold.
struct Property {
    int number = 0;   ///< of section 8; 0: the reference says so
    std::string name; ///< "mask.order"
    std::string says; ///< one sentence
    std::function<rc::Gen<Case>()> cases;
    std::function<void(Trial&)> holds; ///< throws Violation
    /// Kinds of cases that must not be rarer than so many of a hundred, or the property has seen too
    /// little.
    std::map<std::string, int> at_least;
    /// Why it says nothing about an implementation; empty where it does.
    std::function<std::string(const Implementation&)> skipped = [](const Implementation&) {
        return std::string();
    };
    /// What it needs of a case, whatever was drawn or asked for.
    std::function<void(Case&)> needs = [](Case&) {};
    /// Cases that are tried whatever was drawn, larger than that.
    std::vector<Case> also{};
};

/// All of them, in the order in which they are told and tried.
[[nodiscard]] const std::vector<Property>& all_properties();

/// A case in which a property does not hold.
struct Counterexample {
    Case run;
    Violation violation;
    std::deque<Ran> runs;
};

/// One case put to one implementation, judged, in the gate's terms.
[[nodiscard]] gate::Judged judged(const Implementation& implementation, const Property& property,
                                  const Case& run);

} // namespace truestep::properties::scape
