// The edges of the registered constants that cut work up (truestep/problem/tunable.hpp): sizes for cases,
// and how many cases of a run have them.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <truestep/problem/tunable.hpp>

namespace truestep::gate {

/// The sizes of a case in the dimensions that constants cut.
using Extents = std::set<std::pair<problem::Dimension, std::int64_t>>;

/// The sizes c - 1, c, c + 1, 2c and 2c + 1 of each constant that cuts this dimension, ascending, each
/// once; of the constants only whose last one is at most `most`.
[[nodiscard]] std::vector<std::int64_t> edge_sizes(problem::Dimension dimension,
                                                   std::int64_t most = 150'000);
/// Of these sizes the first of each constant, then the second of each, to the fifth.
[[nodiscard]] std::vector<std::vector<std::int64_t>> edge_sizes_in_order(problem::Dimension dimension,
                                                                         std::int64_t most = 150'000);

/// Chooses the settings of cases at edges, so that each constant meets as many values of each setting as it
/// has cases.
class Covering {
  public:
    /// Begins the next case, which has these sizes.
    void begin(const Extents& sizes);
    /// Of the values that one which most constants of the case have not met; of several that whose turn it
    /// is.
    template <class Value>
    [[nodiscard]] Value choose(const std::string& setting, std::initializer_list<Value> values) {
        return values.begin()[chosen(setting, values.size())];
    }

  private:
    std::size_t chosen(const std::string& setting, std::size_t values);

    std::size_t turn_ = 0;
    std::set<std::size_t> here_; ///< the constants at whose edges the case lies
    std::map<std::pair<std::string, std::size_t>, std::set<std::size_t>> met_;
};

/// How many cases lie at each edge, and with which settings.
class EdgeCounts {
  public:
    explicit EdgeCounts(std::vector<std::string> settings) : settings_(std::move(settings)) {}

    void add(const Extents& sizes, const std::string& line);
    /// A line for each constant: its name, what it cuts, where, and the number of cases at c - 1, c, c + 1,
    /// 2c and 2c + 1. Then one for each constant and value of a setting: the cases at its edges.
    [[nodiscard]] std::string table() const;

  private:
    std::vector<std::string> settings_;
    std::array<std::array<int, 5>, problem::cuts.size()> counts_{};
    std::map<std::string, std::array<int, problem::cuts.size()>> with_; ///< by "setting=value"
};

} // namespace truestep::gate
