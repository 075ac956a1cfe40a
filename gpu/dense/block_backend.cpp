// Makes the device backend of dense training in the host's form: its blocks run as loops on the host.
#include <truestep/gpu/dense/devices.hpp>

#include <truestep/gpu/host_machine.hpp>
#include <truestep/gpu/mapl/host_products.hpp>

#include "backend.hpp"

namespace truestep::gpu::dense {

std::unique_ptr<Backend> make_block_backend(const gpu::HostStream& stream) {
    const gpu::HostMachine machine(stream, gpu::Exchange::host);
    return std::make_unique<BlockBackend<gpu::HostMachine, gpu::mapl::HostProducts>>(
        machine, gpu::mapl::HostProducts(machine));
}

} // namespace truestep::gpu::dense
