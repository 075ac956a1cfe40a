// The plain implementation with known bugs, for the gate.
#pragma once

#include <memory>

#include <truestep/properties/scape/implementations.hpp>
#include <truestep/properties/scape/planted/plain.hpp>

namespace truestep::properties::scape::planted {

/// The plain implementation with known bug `number`: "planted-6"; with 0 the clean one, "plain". All of its
/// runs begin at `start`. Throws truestep::Error if there is no such bug.
[[nodiscard]] std::shared_ptr<const properties::scape::Implementation>
implementation(int number, const std::shared_ptr<const gate::Group>& group, const Start& start = {});

} // namespace truestep::properties::scape::planted
