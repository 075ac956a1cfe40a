#pragma once

#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/group.hpp>
#include <truestep/properties/scape/implementation.hpp>

// Mistakes beside the step: what takes it is right in every bit, and somebody changes its state between
// two. Whoever checks steps one at a time, each from the state that it was recorded at, finds nothing.

namespace truestep::properties::scape::planted {

enum class Tampering {
    none,
    mask_never_changes, ///< from the step on at which the density has come down
    residual_clipped,   ///< by its norm, to a hundredth of what a gradient is
    choices_moved,      ///< what an owner has chosen in its range is set in the next owner's
};

struct Tampered {
    Tampering how;
    std::string name;  ///< "tampered-mask"
    std::string words; ///< of the mistake
};
[[nodiscard]] const std::vector<Tampered>& all_tampered();

/// The sharded implementation for hosts, tampered with.
[[nodiscard]] std::shared_ptr<const properties::scape::Implementation>
tampered(const Tampered& which, const std::shared_ptr<const gate::Group>& group);

} // namespace truestep::properties::scape::planted
