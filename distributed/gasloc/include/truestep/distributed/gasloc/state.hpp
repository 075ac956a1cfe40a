// The state of one GASLoC worker between rounds.
#pragma once

#include <span>
#include <vector>

#include <truestep/problem/gasloc/settings.hpp>

namespace truestep::distributed::gasloc {

using namespace problem::gasloc;
using problem::gasloc::Settings; // not that of <truestep/optimizer.hpp>

/// The state of one worker in a checkpoint (section 16), besides settings.
struct State {
    Index rounds = 0; ///< made so far
    Index s = 0;      ///< inner steps so far
    std::vector<float> theta;
    std::vector<float> before;
    std::vector<float> m; ///< for adams and adamw
    std::vector<float> v; ///< for adamw

    void fields(auto& visit) { visit(rounds, s, theta, before, m, v); }

    friend bool operator==(const State&, const State&) = default;
};

/// The state with which a worker begins.
[[nodiscard]] State first_state(const Settings& settings, std::span<const float> parameters);

} // namespace truestep::distributed::gasloc
