#pragma once

#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/group.hpp>
#include <truestep/properties/scape/implementation.hpp>

// Known bugs outside the step: each step is right in every bit, but between two steps the state is changed.
// A check of single steps, each from its recorded state, finds nothing.

namespace truestep::properties::scape::planted {

enum class StateChange {
    none,
    mask_never_changes, ///< from the step on at which the density has come down
    residual_clipped,   ///< by its norm, to a hundredth of a gradient's
    choices_moved,      ///< an owner's choices are set in the next owner's range
};

struct BugBetweenSteps {
    StateChange how;
    std::string name;  ///< "tampered-mask"
    std::string words; ///< describe the bug
};
[[nodiscard]] const std::vector<BugBetweenSteps>& bugs_between_steps();

/// The sharded implementation for hosts, tampered with.
[[nodiscard]] std::shared_ptr<const properties::scape::Implementation>
with_bug_between_steps(const BugBetweenSteps& which, const std::shared_ptr<const gate::Group>& group);

} // namespace truestep::properties::scape::planted
