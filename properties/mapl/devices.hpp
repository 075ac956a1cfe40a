#pragma once

#include <memory>

#include <scape/gate/group.hpp>
#include <scape/gate/system.hpp>

namespace scape::mapl {

/// Those of gpu/mapl: the host's form, and the devices' with the reason why they cannot be run here.
[[nodiscard]] gate::Implementations on_devices(const std::shared_ptr<const gate::Group>& group);

} // namespace scape::mapl
