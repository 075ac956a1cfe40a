// Lists the known bugs of GASLoC's device code, and makes backends and peers that have one.
#include <truestep/gpu/gasloc/planted_devices.hpp>

#include <type_traits>
#include <utility>

#include <truestep/gpu/host_machine.hpp>
#include <truestep/gpu/peers.hpp>
#include <truestep/gpu/planted_machine.hpp>
#include <truestep/gpu/staged_peers.hpp>

#include "backend.hpp"
#include "planted/algorithms.hpp"
#if defined(TRUESTEP_WITH_CUDA)
#include <truestep/gpu/cuda_machine.hpp>
#endif

namespace truestep::gpu::gasloc::device_known_bugs {

namespace {

using gpu::Exchange;

template <class Base>
using WithMistake = gpu::PlantedMachine<
    Base, KnownBug,
    gpu::InPlaceOf<KnownBug::fused_multiply_add, gpu::gasloc::Drift, gpu::gasloc::planted::FusedDrift>>;

template <class Base>
class Machine : public WithMistake<Base> {
  public:
    using WithMistake<Base>::WithMistake;

    template <class Algorithm>
    void run(Index blocks, const typename Algorithm::Arguments& a) {
        if constexpr (std::is_same_v<Algorithm, gpu::gasloc::Meet>)
            if (this->has(KnownBug::gossip_in_place))
                return meet_one_by_one(blocks, a);
        WithMistake<Base>::template run<Algorithm>(blocks, a);
    }

  private:
    /// Launches once for each neighbour, so each launch reads the y that the last one changed.
    void meet_one_by_one(Index blocks, gpu::gasloc::MeetArguments a) {
        gpu::gasloc::MeetArguments one = a;
        one.met_count = 1;
        one.carries = false;
        one.of_gossiped = false;
        one.theta = const_cast<float*>(a.y); // NOLINT(cppcoreguidelines-pro-type-const-cast)
        for (Index i = 0; i < a.met_count; ++i) {
            one.met = a.met + i;
            Base::template run<gpu::gasloc::Meet>(blocks, one);
        }
        a.met_count = 0;
        Base::template run<gpu::gasloc::Meet>(blocks, a);
    }
};

template <class Base, class Stream>
OnStream made(KnownBug known_bug, distributed::Peers& ranks, const Stream& stream) {
    using Mistaken = Machine<Base>;
    auto peers = std::make_unique<gpu::StagedPeers<Mistaken>>(
        ranks, Mistaken(Base(stream, Exchange::host), known_bug));
    Base base(stream, Exchange::device);
    // When sending too early, only the machine of the peers has the bug.
    if (known_bug == KnownBug::sent_before_written)
        return {std::move(peers), std::make_unique<BlockBackend<Base>>(std::move(base))};
    return {std::move(peers),
            std::make_unique<BlockBackend<Mistaken>>(Mistaken(std::move(base), known_bug))};
}

} // namespace

const std::vector<problem::KnownBug>& descriptions() {
    static const std::vector<problem::KnownBug> all{
        {1, "gossip in place, a launch for each neighbour",
         "The second neighbour's launch reads what the first has written. Needs a worker with two "
         "neighbours."},
        {2, "the last quad is left out",
         "The last one to three coordinates never move. Needs a d that does not divide by 4."},
        {3, "y is sent before the stream has written it",
         "Neighbours get what stood there before. Needs an edge, and a device that is late."},
        {4, "the verdict on a gradient is not waited for",
         "A gradient that is not finite is taken, and nobody is told. Needs such a gradient."},
        {5, "contraction", "The last bit of y differs. Needs products that are not exact."}};
    return all;
}

OnStream on_stream(KnownBug known_bug, distributed::Peers& ranks, const gpu::HostStream& stream) {
    if (known_bug == KnownBug::none)
        return {gpu::make_block_peers(ranks, stream), make_block_backend(stream)};
    return made<gpu::HostMachine>(known_bug, ranks, stream);
}

#if defined(TRUESTEP_WITH_CUDA)
OnStream on_stream(KnownBug known_bug, distributed::Peers& ranks, const gpu::CudaStream& stream) {
    if (known_bug == KnownBug::none)
        return {gpu::make_cuda_peers(ranks, stream), make_cuda_backend(stream)};
    return made<gpu::CudaMachine>(known_bug, ranks, stream);
}
#endif

} // namespace truestep::gpu::gasloc::device_known_bugs
