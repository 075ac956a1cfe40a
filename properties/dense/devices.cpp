// The workers over the backends of gpu/dense as implementations under test, and their known bugs: the
// host's form anywhere, the device's where there is one.
#include "devices.hpp"

#include <string>

#include <truestep/gpu/dense/planted_devices.hpp>
#include <truestep/gpu/forms.hpp>
#include <truestep/gpu/mapl/devices.hpp>

#include "implementation.hpp"
#include "planted/plain.hpp"

namespace truestep::properties::dense {

namespace {

using gpu::dense::device_known_bugs::backend_on;
using gpu::dense::device_known_bugs::KnownBug;

Begin blocks(KnownBug known_bug) {
    return workers([known_bug](int rank, int threads) {
        return backend_on(known_bug, gpu::HostStream::in_turn(rank, threads));
    });
}

/// All ranks on the first device.
Begin one_device([[maybe_unused]] KnownBug known_bug) {
#if defined(TRUESTEP_WITH_CUBLAS)
    return workers([known_bug](int rank, int) {
        gpu::set_schedule(rank);
        return backend_on(known_bug, gpu::CudaStream({.device = 0, .stream = nullptr, .graphs = false}));
    });
#else
    return {};
#endif
}

std::shared_ptr<const gate::Implementation> on_device(KnownBug known_bug, const std::string& name,
                                                      const std::shared_ptr<const gate::Group>& group) {
    const gpu::Form form = gpu::form_of_one_device(gpu::mapl::missing_products());
    return std::make_shared<GroupImplementation>(name.empty() ? form.name : name, one_device(known_bug),
                                                 group, gate::placement_of(form));
}

} // namespace

gate::Implementations on_devices(const std::shared_ptr<const gate::Group>& group) {
    return {std::make_shared<GroupImplementation>("cuda-blocks", blocks(KnownBug::none), group),
            on_device(KnownBug::none, "", group)};
}

const gpu::DeviceMistakes& known_bugs_on_devices() {
    static const gpu::DeviceMistakes all{first_on_devices, gpu::dense::device_known_bugs::descriptions()};
    return all;
}

std::shared_ptr<const gate::Implementation>
device_known_bug(int number, const std::string& name, const std::shared_ptr<const gate::Group>& group) {
    const auto known_bug = static_cast<KnownBug>(known_bugs_on_devices().planted_as(number));
    if (known_bugs_on_devices().on_device(number))
        return on_device(known_bug, name, group);
    return std::make_shared<GroupImplementation>(name, blocks(known_bug), group);
}

} // namespace truestep::properties::dense
