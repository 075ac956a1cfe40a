// Lists the known bugs of MAPL's device code, and makes backends and peers that have one.
#include <truestep/gpu/mapl/planted_devices.hpp>

#include <utility>

#include <truestep/gpu/algorithms/without_barriers.hpp>
#include <truestep/gpu/host_machine.hpp>
#include <truestep/gpu/planted_machine.hpp>
#include <truestep/gpu/staged_peers.hpp>

#include "backend.hpp"
#include "device_traffic.hpp"
#include "planted/algorithms.hpp"
#include <truestep/gpu/mapl/host_products.hpp>
#if defined(TRUESTEP_WITH_CUBLAS)
#include <truestep/gpu/cuda_machine.hpp>

#include <truestep/gpu/mapl/cublas_products.hpp>
#endif

namespace truestep::gpu::mapl::device_known_bugs {

namespace {

using gpu::Exchange;

template <class Base>
using Machine = gpu::PlantedMachine<
    Base, KnownBug,
    gpu::InPlaceOf<KnownBug::barrier_missing, boundary::SquareSums,
                   gpu::planted::WithoutBarriers<boundary::SquareSums>>,
    gpu::InPlaceOf<KnownBug::rows_added_at_once, boundary::AddRows, boundary::planted::AddRowsAtOnce>>;

template <class Base, class Stream, class Products>
OnStream made(KnownBug known_bug, distributed::Peers& ranks, const Stream& stream, Products products) {
    using Mistaken = Machine<Base>;
    auto peers = std::make_unique<gpu::StagedPeers<Mistaken>>(
        ranks, Mistaken(Base(stream, Exchange::host), known_bug), standing_on_machine());
    Base base(stream, Exchange::device);
    // When sending too early, only the machine of the peers has the bug.
    if (known_bug == KnownBug::sent_before_written)
        return {std::move(peers),
                std::make_unique<BlockBackend<Base, Products>>(std::move(base), std::move(products))};
    return {std::move(peers), std::make_unique<BlockBackend<Mistaken, Products>>(
                                  Mistaken(std::move(base), known_bug), std::move(products))};
}

} // namespace

const std::vector<problem::KnownBug>& descriptions() {
    static const std::vector<problem::KnownBug> all{
        {1, "a barrier is missing where halves are added",
         "The norm of m is of some of its values, and d no polar. Needs more than four of them."},
        {2, "the last values are left out",
         "The last one to three of Z, dZ or m are what stood there. Needs "
         "a size that does not divide by 4."},
        {3, "a message is sent before the stream has written it",
         "The other side gets what stood there before. Needs a device that is late."},
        {4, "the verdict on what is not finite is not waited for",
         "An activation or a gradient that is not finite is sent. Needs one."},
        {5, "rows are added to their ids at once", "Of tokens with the same id one counts. Needs two."}};
    return all;
}

OnStream on_stream(KnownBug known_bug, distributed::Peers& ranks, const gpu::HostStream& stream) {
    if (known_bug == KnownBug::none)
        return {make_block_peers(ranks, stream), make_block_backend(stream)};
    return made<gpu::HostMachine>(known_bug, ranks, stream,
                                  HostProducts(gpu::HostMachine(stream, Exchange::device)));
}

#if defined(TRUESTEP_WITH_CUBLAS)
OnStream on_stream(KnownBug known_bug, distributed::Peers& ranks, const gpu::CudaStream& stream) {
    if (known_bug == KnownBug::none)
        return {make_cuda_peers(ranks, stream), make_cuda_backend(stream)};
    return made<gpu::CudaMachine>(known_bug, ranks, stream, CublasProducts(stream));
}
#endif

} // namespace truestep::gpu::mapl::device_known_bugs
