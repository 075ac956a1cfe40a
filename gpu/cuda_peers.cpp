#include <scape/gpu/peers.hpp>

#include <utility>

#include <scape/gpu/cuda_machine.hpp>
#include <scape/gpu/staged_peers.hpp>

namespace scape::gpu {

std::unique_ptr<distributed::Peers> make_cuda_peers(distributed::Peers& ranks, const CudaStream& stream,
                                                    std::vector<distributed::Traffic> on_device) {
    return std::make_unique<StagedPeers<CudaMachine>>(ranks, CudaMachine(stream, Exchange::host),
                                                      std::move(on_device));
}

} // namespace scape::gpu
