// Lists the known bugs of SCAPE's device code, and makes backends and communicators that have one.
#include <truestep/gpu/scape/planted.hpp>

#include <type_traits>

#include <truestep/gpu/algorithms/without_barriers.hpp>
#include <truestep/gpu/communicators.hpp>
#include <truestep/gpu/host_machine.hpp>
#include <truestep/gpu/planted_machine.hpp>
#include <truestep/gpu/stream_communicator.hpp>

#include "backend.hpp"
#include "planted/algorithms.hpp"
#if defined(TRUESTEP_WITH_CUDA)
#include <truestep/gpu/cuda_machine.hpp>
#include <truestep/gpu/scape/cuda_backend.hpp>
#endif

namespace truestep::gpu::scape::planted {

namespace {

template <class Base>
using WithReplacement =
    PlantedMachine<Base, Bug, InPlaceOf<Bug::fused_multiply_add, LocalPass, FusedLocalPass<false>>,
                   InPlaceOf<Bug::fused_multiply_add, WatchingPass, FusedLocalPass<true>>,
                   InPlaceOf<Bug::payload_cut_off, RoundPayload, PayloadCutOff>,
                   InPlaceOf<Bug::rounding_dropped, RoundPayload, PayloadWithoutRest>,
                   InPlaceOf<Bug::missing_barrier, SquareSums, gpu::planted::WithoutBarriers<SquareSums>>>;

template <class Base>
class Machine : public WithReplacement<Base> {
  public:
    using WithReplacement<Base>::WithReplacement;

    template <class Algorithm>
    void run(Index blocks, typename Algorithm::Arguments a) {
        if constexpr (std::is_same_v<typename Algorithm::Arguments, LocalPassArguments>) {
            if (this->has(Bug::offsets_of_previous_mask)) {
                a.current.ranks = a.last.ranks;
                a.current.offsets = a.last.offsets;
            }
            if (this->has(Bug::tail_of_last_block))
                a.size -= a.size % quad_size; // whole loads of 16 bytes, and nothing after them
        }
        WithReplacement<Base>::template run<Algorithm>(blocks, a);
        if constexpr (std::is_same_v<Algorithm, WatchingPass>)
            if (this->has(Bug::subnormals_flushed)) // this algorithm comes last
                Base::template run<FlushToZero>((a.size + tile - 1) / tile, {a.size, a.e});
    }

    /// Wrong offsets shall hit wrong values, but stay within own memory.
    template <class T>
    void resize(typename Base::template Vector<T>& vector, Index size) {
        constexpr Index room = 16'384;
        constexpr bool addressed = std::is_same_v<T, float> || std::is_same_v<T, std::uint8_t>;
        Base::resize(vector, addressed ? size + room : size);
    }
};

/// A stream whose side streams never wait for it.
template <class Base>
class Stream : public Base {
  public:
    Stream(Base base, bool deaf) : Base(std::move(base)), deaf_(deaf) {}

    [[nodiscard]] Stream beside() const { return {Base::beside(), true}; }
    void wait(const typename Base::Event& event) {
        if (!deaf_)
            Base::wait(event);
    }

  private:
    bool deaf_;
};

template <class Base>
std::unique_ptr<distributed::Communicator> hasty(distributed::Communicator& ranks, const Base& stream) {
    return std::make_unique<StreamCommunicator<Stream<Base>>>(ranks, Stream<Base>(stream, false));
}

} // namespace

const std::vector<problem::KnownBug>& bugs() {
    static const std::vector<problem::KnownBug> all{
        {1, "missing barrier",
         "A sum over threads adds what others have not written yet: the norm of ghat is "
         "another. Needs clipping."},
        {2, "mask buffer read before it is written",
         "The gather's stream does not wait for selection: now and then a mask is the last one, or none "
         "at all. Needs P >= 2."},
        {3, "stale offsets: those of the previous mask",
         "Packed values land on other coordinates. Needs a mask that changes and more than 64 "
         "coordinates."},
        {4, "contraction", "The last bit of c differs. Needs products that are not exact."},
        {5, "flush to zero", "Subnormal residuals turn to 0. Needs such values, and a density below 1."},
        {6, "tail of the last block",
         "The last one to three coordinates never get their gradient, and send what "
         "stood there. Needs a d that "
         "does not divide by 4."},
        {7, "the payload is cut off, not rounded", "Always towards 0. Needs a payload of bf16 or e5m2."},
        {8, "what rounding the payload takes is dropped",
         "The residual on the mask is 0: what is lost never comes back. Needs a payload of bf16 or "
         "e5m2."}};
    return all;
}

std::unique_ptr<distributed::scape::Backend> make_backend(Bug bug, const problem::Problem& problem,
                                                          std::span<const float> parameters,
                                                          const BlockOptions& options,
                                                          const HostStream& stream) {
    if (bug == Bug::none)
        return make_block_backend(problem, parameters, options, stream);
    return std::make_unique<BlockBackend<Machine<HostMachine>>>(
        problem, parameters, Machine<HostMachine>(HostMachine(stream, options.exchange), bug),
        options.group_tiles);
}

std::unique_ptr<distributed::Communicator> make_communicator(Bug bug, distributed::Communicator& ranks,
                                                             const HostStream& stream) {
    return bug == Bug::mask_buffer_not_waited_for ? hasty(ranks, stream)
                                                  : make_block_communicator(ranks, stream);
}

#if defined(TRUESTEP_WITH_CUDA)

std::unique_ptr<distributed::scape::Backend> make_backend(Bug bug, const problem::Problem& problem,
                                                          std::span<const float> parameters,
                                                          Exchange exchange, const CudaStream& stream) {
    if (bug == Bug::none)
        return make_cuda_backend(problem, parameters, stream, exchange);
    return std::make_unique<BlockBackend<Machine<CudaMachine>>>(
        problem, parameters, Machine<CudaMachine>(CudaMachine(stream, exchange), bug), 0);
}

std::unique_ptr<distributed::Communicator> make_communicator(Bug bug, distributed::Communicator& ranks,
                                                             const CudaStream& stream) {
    return bug == Bug::mask_buffer_not_waited_for ? hasty(ranks, CudaDeviceStream(stream))
                                                  : make_cuda_communicator(ranks, stream);
}

#endif

} // namespace truestep::gpu::scape::planted
