// Makes MAPL's device backend and its peers in the host's form: blocks run as loops on the host.
#include <truestep/gpu/mapl/devices.hpp>

#include <truestep/gpu/host_machine.hpp>
#include <truestep/gpu/peers.hpp>

#include "backend.hpp"
#include "device_traffic.hpp"
#include <truestep/gpu/mapl/host_products.hpp>

namespace truestep::gpu::mapl {

std::unique_ptr<Backend> make_block_backend(const gpu::HostStream& stream) {
    const gpu::HostMachine machine(stream, gpu::Exchange::device);
    return std::make_unique<BlockBackend<gpu::HostMachine, HostProducts>>(machine, HostProducts(machine));
}

std::unique_ptr<distributed::Peers> make_block_peers(distributed::Peers& ranks,
                                                     const gpu::HostStream& stream) {
    return gpu::make_block_peers(ranks, stream, standing_on_machine());
}

} // namespace truestep::gpu::mapl
