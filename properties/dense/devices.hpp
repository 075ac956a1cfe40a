// The implementations and known bugs of gpu/dense, for the gate.
#pragma once

#include <memory>

#include <truestep/gate/group.hpp>
#include <truestep/gate/implementation.hpp>
#include <truestep/gpu/device_bugs.hpp>

namespace truestep::properties::dense {

/// The host's form, and the device's with the reason where it cannot run here.
[[nodiscard]] gate::Implementations on_devices(const std::shared_ptr<const gate::Group>& group);

/// The known bugs of gpu/dense/planted, numbered among all of the system's.
[[nodiscard]] const gpu::DeviceMistakes& known_bugs_on_devices();
/// The implementation with the known bug of this number.
[[nodiscard]] std::shared_ptr<const gate::Implementation>
device_known_bug(int number, const std::string& name, const std::shared_ptr<const gate::Group>& group);

} // namespace truestep::properties::dense
