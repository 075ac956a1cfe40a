#pragma once

#include <memory>
#include <vector>

#include <scape/gate/system.hpp>

namespace scape::mapl {

[[nodiscard]] std::vector<gate::Mistake> mistakes();
/// Those of them that are not of code for devices alone.
[[nodiscard]] std::vector<gate::Mistake> plain_mistakes();
/// The plain ends with that mistake; 0: with none. Throws scape::Error if there is none.
[[nodiscard]] std::shared_ptr<const gate::Implementation>
planted(int number, const std::shared_ptr<const gate::Group>& group);

} // namespace scape::mapl
