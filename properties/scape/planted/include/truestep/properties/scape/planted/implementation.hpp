#pragma once

#include <memory>

#include <truestep/properties/scape/implementations.hpp>
#include <truestep/properties/scape/planted/plain.hpp>

namespace truestep::properties::scape::planted {

/// The plain implementation with planted bug `number` as the gate sees it: "planted-6"; with 0 the clean
/// one, "plain". `start`: of all its runs. Throws truestep::Error if there is no such bug.
[[nodiscard]] std::shared_ptr<const properties::scape::Implementation>
implementation(int number, const std::shared_ptr<const gate::Group>& group, const Start& start = {});

} // namespace truestep::properties::scape::planted
