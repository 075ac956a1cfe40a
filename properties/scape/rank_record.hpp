// What one rank recorded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <truestep/properties/scape/implementation.hpp>

namespace truestep::properties::scape {

/// The recording of one rank: a View and an Outcome for each action that it completed, the coming mask, and
/// how it ended.
struct RankRecord {
    std::vector<ObservedState> views;
    std::vector<Outcome> outcomes;
    std::vector<std::uint8_t> coming;
    std::string ended;       ///< the error, if one ended it
    bool fault_came = false; ///< its own, of an action

    void fields(auto& visit) { visit(views, outcomes, coming, ended, fault_came); }
};

} // namespace truestep::properties::scape
