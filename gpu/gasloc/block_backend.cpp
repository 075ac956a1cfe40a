// Makes GASLoC's device backend in the host's form: its blocks run as loops on the host.
#include <truestep/gpu/gasloc/devices.hpp>

#include <truestep/gpu/host_machine.hpp>

#include "backend.hpp"

namespace truestep::gpu::gasloc {

std::unique_ptr<Backend> make_block_backend(const gpu::HostStream& stream) {
    return std::make_unique<BlockBackend<gpu::HostMachine>>(
        gpu::HostMachine(stream, gpu::Exchange::device));
}

} // namespace truestep::gpu::gasloc
