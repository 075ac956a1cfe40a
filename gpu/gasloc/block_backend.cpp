#include <scape/gasloc/devices.hpp>

#include <scape/gpu/host_machine.hpp>

#include "backend.hpp"

namespace scape::gasloc {

std::unique_ptr<Backend> make_block_backend(const gpu::HostStream& stream) {
    return std::make_unique<BlockBackend<gpu::HostMachine>>(
        gpu::HostMachine(stream, gpu::Exchange::device));
}

} // namespace scape::gasloc
