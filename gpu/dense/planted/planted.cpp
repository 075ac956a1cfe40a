// Lists the known bugs of dense training's device code, and makes backends that have one.
#include <truestep/gpu/dense/planted_devices.hpp>

#include <utility>

#include <truestep/gpu/algorithms/without_barriers.hpp>
#include <truestep/gpu/host_machine.hpp>
#include <truestep/gpu/mapl/host_products.hpp>
#include <truestep/gpu/planted_machine.hpp>

#include "backend.hpp"
#include "planted/algorithms.hpp"
#if defined(TRUESTEP_WITH_CUBLAS)
#include <truestep/gpu/cuda_machine.hpp>
#include <truestep/gpu/mapl/cublas_products.hpp>
#endif

namespace truestep::gpu::dense::device_known_bugs {

namespace {

template <class Base>
using WithReplacement = gpu::PlantedMachine<
    Base, KnownBug,
    gpu::InPlaceOf<KnownBug::barrier_missing, SquareSums, gpu::planted::WithoutBarriers<SquareSums>>,
    gpu::InPlaceOf<KnownBug::fused_multiply_add, AdamStep, planted::FusedAdam>>;

template <class Base>
class Machine : public WithReplacement<Base> {
  public:
    using WithReplacement<Base>::WithReplacement;

    void hand_over() {
        if (!this->has(KnownBug::exchanged_before_written))
            Base::hand_over();
    }
    /// A copy: where a verdict is not waited for, the caller's gradient goes before it is read.
    const float* gradient(const float* given, Index size) {
        Base::resize(gradient_, size);
        Base::upload(gradient_.data(), given, size);
        return gradient_.data();
    }

  private:
    typename Base::template Vector<float> gradient_;
};

template <class Base, class Stream, class Products>
std::unique_ptr<Backend> made(KnownBug known_bug, const Stream& stream, Products products) {
    return std::make_unique<BlockBackend<Machine<Base>, Products>>(
        Machine<Base>(Base(stream, gpu::Exchange::host), known_bug), std::move(products));
}

} // namespace

const std::vector<problem::KnownBug>& descriptions() {
    static const std::vector<problem::KnownBug> all{
        {1, "a barrier is missing where squares are added",
         "The norm is of some of the values. Needs clipping, or Muon, and more than one value."},
        {2, "the last quad is left out",
         "The last one to three coordinates never move. Needs a share that does not divide by 4."},
        {3, "ranks exchange before the stream has written",
         "Other ranks get what stood there before. Needs a device that is late."},
        {4, "the verdict on a gradient is not waited for",
         "A gradient that is not finite is taken. Needs one."},
        {5, "contraction", "The last bit of Adam's moment differs. Needs products that are not exact."}};
    return all;
}

std::unique_ptr<Backend> backend_on(KnownBug known_bug, const gpu::HostStream& stream) {
    if (known_bug == KnownBug::none)
        return make_block_backend(stream);
    return made<gpu::HostMachine>(known_bug, stream,
                                  gpu::mapl::HostProducts(gpu::HostMachine(stream, gpu::Exchange::host)));
}

#if defined(TRUESTEP_WITH_CUBLAS)
std::unique_ptr<Backend> backend_on(KnownBug known_bug, const gpu::CudaStream& stream) {
    if (known_bug == KnownBug::none)
        return make_cuda_backend(stream);
    return made<gpu::CudaMachine>(known_bug, stream, gpu::mapl::CublasProducts(stream));
}
#endif

} // namespace truestep::gpu::dense::device_known_bugs
