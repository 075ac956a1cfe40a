// The search for a counterexample: drawing cases and shrinking.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <truestep/gate/system.hpp>

namespace truestep::gate {

/// A property's judgement of a case. An exception counts as a finding, too.
[[nodiscard]] CaseJudgement judged(const Implementation& implementation, const Property& property,
                                   const Line& line);
/// A finding of the gate itself, not of a property.
[[nodiscard]] std::shared_ptr<const Finding> unjudged(const std::string& message);

/// Orders of things that may be done in any order, by number; each case is tried in all of them. Only where
/// an order can be chosen.
struct Schedules {
    std::uint64_t first = 1;
    int count = 1;
    std::function<void(std::uint64_t)> use{}; ///< none: there is no choice
};

struct SearchOptions {
    int cases = 100;
    std::uint64_t seed = 1;
    Overrides overrides{};
    bool workers_by_default = false; ///< the numbers of ranks are all available ones; none was given
    Unsupported unsupported{};
    /// Tried after the drawn cases, since these are smaller.
    std::vector<Line> also{};
    int most_evaluations = 2000; ///< of shrinking
    double most_seconds = 120.0; ///< of shrinking: each run that hangs lasts as long as the timeout
    /// Called before each evaluation with its case; false ends the search.
    std::function<bool(const Line&)> before = [](const Line&) { return true; };
    /// Called when a case has failed, before a smaller one is looked for.
    std::function<void()> failed = [] {};
    Schedules schedules{};
    /// Judges one case with the property, here or in another process.
    std::function<CaseJudgement(const Implementation&, const Property&, const Line&)> judge = judged;
};

/// A case in which a property does not hold. Shrinking found no smaller one.
struct Counterexample {
    Line line;
    std::shared_ptr<const Finding> finding;
    int evaluations = 0;        ///< of shrinking
    std::uint64_t schedule = 0; ///< the order in which it fails; 0: there is no choice
};

struct SearchResult {
    int cases = 0; ///< drawn and others
    int drawn = 0;
    std::map<std::string, int> kinds; ///< number of cases by kind
    Counts counts;
    std::optional<Counterexample> counterexample;
    bool ended = false;       ///< by `before`
    bool interrupted = false; ///< `before` ended it for an interruption
    double seconds = 0.0;
};

/// Draws cases until one fails or there have been enough, and shrinks it. The same seed draws the same
/// cases, on all ranks.
[[nodiscard]] SearchResult search(const System& system, const Implementation& implementation,
                                  const Property& property, const SearchOptions& options);

/// Tries one case. Returns nothing if the property holds.
[[nodiscard]] std::optional<Counterexample> try_case(const Implementation& implementation,
                                                     const Property& property, const Line& line,
                                                     const SearchOptions& options, SearchResult& result);

/// Kinds of cases of which there were too few: "" or a sentence. "" for few or pinned cases.
[[nodiscard]] std::string too_few(const System& system, const Property& property,
                                  const SearchResult& result, const SearchOptions& options);

/// A counterexample for people: the violation, the values around, the case. Several lines.
[[nodiscard]] std::string failure_text(const Counterexample& found);
/// A counterexample for programs: docs/results.md. `trace` is the file of its trace, or "".
[[nodiscard]] nlohmann::ordered_json failure_json(const Counterexample& found, const std::string& trace);

} // namespace truestep::gate
