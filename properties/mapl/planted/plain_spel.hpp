// SPEL for the plain ends.
#pragma once

#include "plain.hpp"
#include "plain_numbers.hpp"

namespace truestep::properties::mapl::plain {

/// A and m after a step; `before` is the A before it.
struct TrainedSubspace {
    Table a;
    Table m;
};
[[nodiscard]] TrainedSubspace train(Wrong wrong, const Settings& settings, const Table& a,
                                    const Table& before, const Table& m, const Table& g, double rate);

} // namespace truestep::properties::mapl::plain
