#pragma once

#include <memory>

#include <truestep/planted/plain.hpp>
#include <truestep/properties/implementations.hpp>

namespace truestep::planted {

/// The plain implementation with planted bug `number` as the gate sees it: "planted-6"; with 0 the clean
/// one, "plain". `start`: of all its runs. Throws truestep::Error if there is no such bug.
[[nodiscard]] std::shared_ptr<const properties::Implementation>
implementation(int number, const std::shared_ptr<const gate::Group>& group, const Start& start = {});

} // namespace truestep::planted
