#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <scape/properties/property.hpp>

namespace scape::properties {

/// Values that cases are held to, where a list is not empty.
struct Pins {
    std::vector<int> workers;
    std::vector<double> densities;
    std::vector<problem::PartitionRule> partitions;
    std::vector<problem::BiasCorrection> corrections;
    std::vector<problem::DataClass> data;
    std::optional<Index> steps;
    std::optional<std::vector<problem::Tensor>> tensors;
    std::optional<double> clip_norm;
    bool workers_by_default = false; ///< all that there are, rather than those that somebody asked for
};

struct SearchOptions {
    int cases = 100;
    std::uint64_t seed = 1;
    Pins pins;
    /// Tried after the drawn ones, of which a failing one could be made smaller.
    std::vector<Case> also;
    int most_evaluations = 2000; ///< in shrinking
    double most_seconds = 120.0; ///< in shrinking: each run of one that hangs lasts as long as the timeout
    /// Called before each evaluation with its case; false ends the search.
    std::function<bool(const Case&)> before = [](const Case&) { return true; };
};

/// A case in which a property does not hold: nothing that shrinking tried made it smaller.
struct Counterexample {
    Case run;
    Violation violation;
    std::deque<Ran> runs;
    int evaluations = 0; ///< of shrinking
};

struct SearchResult {
    int cases = 0;
    std::map<std::string, int> kinds; ///< of case: how many were of it
    Counts counts;
    std::optional<Counterexample> counterexample;
    bool ended = false; ///< `before` said so
    double seconds = 0.0;
};

/// Draws cases until one fails or there have been enough, and shrinks it. The same seed draws the same
/// cases, on all ranks.
[[nodiscard]] SearchResult search(const Implementation& implementation, const Property& property,
                                  const SearchOptions& options);

/// One case. Nothing if the property holds.
[[nodiscard]] std::optional<Counterexample> try_case(const Implementation& implementation,
                                                     const Property& property, const Case& run,
                                                     SearchResult& result);

/// Kinds of cases of which there were too few: "" or a sentence. Says nothing of a few cases, or of pinned
/// ones.
[[nodiscard]] std::string too_few(const Property& property, const SearchResult& result,
                                  const SearchOptions& options);

} // namespace scape::properties
