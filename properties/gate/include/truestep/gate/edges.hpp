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
/// Returns these sizes in five lists: the first has c - 1 of each constant, the last 2c + 1.
[[nodiscard]] std::vector<std::vector<std::int64_t>> edge_sizes_in_order(problem::Dimension dimension,
                                                                         std::int64_t most = 150'000);

/// Chooses the settings of cases at edges, each so that most constants of the case meet a value that they
/// have not met; of several such values the one that is new to most values chosen before it.
class Covering {
  public:
    /// Begins the next case, which has these sizes.
    void begin(const Extents& sizes);
    template <class Value>
    [[nodiscard]] Value choose(const std::string& setting, std::initializer_list<Value> values) {
        return values.begin()[chosen(setting, values.size())];
    }

  private:
    using Choice = std::pair<std::string, std::size_t>; ///< a setting, and the place of a value
    std::size_t chosen(const std::string& setting, std::size_t values);

    std::size_t turn_ = 0;
    std::vector<std::size_t> here_; ///< the constants at whose edges the case lies
    std::vector<Choice> of_case_;
    std::map<Choice, std::set<std::size_t>> met_; ///< constants
    std::set<std::pair<Choice, Choice>> together_;
};

/// How many cases lie at each edge, and how many at one of a constant's edges have a setting's value.
class EdgeCounts {
  public:
    void add(const Extents& sizes, const std::map<std::string, std::string>& settings);
    /// A line for each constant: its name, what it cuts, where, and the number of cases at c - 1, c, c + 1,
    /// 2c and 2c + 1. Then one for each constant and value of a setting: the cases at its edges.
    [[nodiscard]] std::string table() const;

  private:
    std::array<std::array<int, 5>, problem::cuts.size()> counts_{};
    std::map<std::string, std::array<int, problem::cuts.size()>> with_; ///< by "setting=value"
};

} // namespace truestep::gate
