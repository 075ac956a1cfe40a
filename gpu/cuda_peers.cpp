// Makes peers whose messages lie in a CUDA device's memory, and copies such data to the host.
#include <truestep/gpu/peers.hpp>

#include <memory>
#include <utility>

#include <truestep/gpu/cuda_machine.hpp>
#include <truestep/gpu/staged_peers.hpp>

namespace truestep::gpu {

std::unique_ptr<distributed::Peers> make_cuda_peers(distributed::Peers& ranks, const CudaStream& stream,
                                                    std::vector<distributed::Traffic> on_device) {
    return std::make_unique<StagedPeers<CudaMachine>>(ranks, CudaMachine(stream, Exchange::host),
                                                      std::move(on_device));
}

std::function<const std::byte*()> copied_out(const CudaStream& stream, const void* from,
                                             std::size_t bytes) {
    struct Copy {
        explicit Copy(CudaMachine of) : machine(std::move(of)) {}
        CudaMachine machine;
        CudaMachine::Vector<std::byte> to{};
    };
    static_cast<void>(stream.state()->at_once()); // memory must not be allocated while a graph is captured
    const auto copy = std::make_shared<Copy>(CudaMachine(stream, Exchange::host));
    copy->machine.exchange(copy->to);
    copy->machine.resize(copy->to, static_cast<Index>(bytes));
    copy->machine.fetch(copy->to.data(), static_cast<const std::byte*>(from), copy->to.size());
    return [copy]() -> const std::byte* {
        copy->machine.finish();
        return copy->to.data();
    };
}

} // namespace truestep::gpu
