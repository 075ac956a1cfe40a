#pragma once

#include <span>
#include <vector>

#include <truestep/problem/gasloc/settings.hpp>

namespace truestep::distributed::gasloc {

using namespace problem::gasloc;

/// All that a checkpoint holds of one worker (section 16), besides settings.
struct State {
    Index rounds = 0; ///< that have been made
    Index s = 0;      ///< inner steps of its life
    std::vector<float> theta;
    std::vector<float> before;
    std::vector<float> m; ///< of adams and adamw
    std::vector<float> v; ///< of adamw

    void fields(auto& visit) { visit(rounds, s, theta, before, m, v); }

    friend bool operator==(const State&, const State&) = default;
};

/// What a worker begins with.
[[nodiscard]] State first_state(const Settings& settings, std::span<const float> parameters);

} // namespace truestep::distributed::gasloc
