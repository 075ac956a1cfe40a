#pragma once

#include <memory>
#include <vector>

#include <truestep/gate/group.hpp>
#include <truestep/gate/system.hpp>

namespace truestep::gasloc {

/// Those of gpu/gasloc: the host's form, and the devices' with the reason why they cannot be run here.
[[nodiscard]] gate::Implementations on_devices(const std::shared_ptr<const gate::Group>& group);

/// The mistakes in code for devices, twice: in the host's form, then on a device. Numbered from `first` on.
[[nodiscard]] std::vector<gate::Mistake> mistakes_on_devices(int first);
/// The one with this number among them, counted from 0.
[[nodiscard]] std::shared_ptr<const gate::Implementation>
device_mistake(int number, const std::string& name, const std::shared_ptr<const gate::Group>& group);

} // namespace truestep::gasloc
