// The edges of the registered constants that cut work up (truestep/problem/tunable.hpp): sizes for cases,
// and how many cases of a run have them.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
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

/// The value whose turn it is. Settings with lists of lengths without a common factor meet in all pairs.
template <class Value>
[[nodiscard]] Value in_turn(std::size_t turn, std::initializer_list<Value> values) {
    return values.begin()[turn % values.size()];
}

/// How many cases lie at each edge.
class EdgeCounts {
  public:
    void add(const Extents& sizes);
    /// A line for each constant: its name, what it cuts, where, and the number of cases at c - 1, c, c + 1,
    /// 2c and 2c + 1.
    [[nodiscard]] std::string table() const;

  private:
    std::array<std::array<int, 5>, problem::cuts.size()> counts_{};
};

} // namespace truestep::gate
