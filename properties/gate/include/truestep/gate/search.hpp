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

/// What a property says of a case. What is thrown is a finding, too.
[[nodiscard]] Judged judged(const Implementation& implementation, const Property& property,
                            const Line& line);
/// A finding that is none of a property's, but one of the gate's.
[[nodiscard]] std::shared_ptr<const Finding> unjudged(const std::string& message);

/// Orders of what may be done in any order, by numbers, where somebody can choose one; each case is tried
/// in all of these.
struct Schedules {
    std::uint64_t first = 1;
    int count = 1;
    std::function<void(std::uint64_t)> use{}; ///< none: there is no choice
};

struct SearchOptions {
    int cases = 100;
    std::uint64_t seed = 1;
    Pins pins{};
    bool workers_by_default = false; ///< the pinned ones are all that there are, asked for by nobody
    LeftOut left_out{};
    /// Tried after the drawn ones, of which a failing one could be made smaller.
    std::vector<Line> also{};
    int most_evaluations = 2000; ///< in shrinking
    double most_seconds = 120.0; ///< in shrinking: each run of one that hangs lasts as long as the timeout
    /// Called before each evaluation with its case; false ends the search.
    std::function<bool(const Line&)> before = [](const Line&) { return true; };
    Schedules schedules{};
    /// Asks the property of one case, in whatever surroundings.
    std::function<Judged(const Implementation&, const Property&, const Line&)> judge = judged;
};

/// A case in which a property does not hold: nothing that shrinking tried made it smaller.
struct Counterexample {
    Line line;
    std::shared_ptr<const Finding> finding;
    int evaluations = 0;        ///< of shrinking
    bool was_drawn = true;      ///< else it is one that stands, and does not shrink
    std::uint64_t schedule = 0; ///< that it fails in; 0: there is no choice
};

struct SearchResult {
    int cases = 0; ///< all of them
    int drawn = 0;
    std::map<std::string, int> kinds; ///< of case: how many were of it
    Counts counts;
    std::optional<Counterexample> counterexample;
    bool ended = false;       ///< `before` said so
    bool interrupted = false; ///< and that was why
    double seconds = 0.0;
};

/// Draws cases until one fails or there have been enough, and shrinks it. The same seed draws the same
/// cases, on all ranks.
[[nodiscard]] SearchResult search(const System& system, const Implementation& implementation,
                                  const Property& property, const SearchOptions& options);

/// One case. Nothing if the property holds.
[[nodiscard]] std::optional<Counterexample> try_case(const Implementation& implementation,
                                                     const Property& property, const Line& line,
                                                     const SearchOptions& options, SearchResult& result);

/// Kinds of cases of which there were too few: "" or a sentence. Says nothing of a few cases, or of pinned
/// ones.
[[nodiscard]] std::string too_few(const System& system, const Property& property,
                                  const SearchResult& result, const SearchOptions& options);

/// A counterexample for people: what does not hold, the values around, the case. Several lines.
[[nodiscard]] std::string failure_text(const Counterexample& found);
/// And for programs: docs/results.md. `trace` is the file it was saved to, or "".
[[nodiscard]] nlohmann::ordered_json failure_json(const Counterexample& found, const std::string& trace);

} // namespace truestep::gate
