#include <truestep/gpu/planted.hpp>

#include <type_traits>

#include <truestep/gpu/host_machine.hpp>
#include <truestep/gpu/stream_communicator.hpp>

#include "backend.hpp"
#include "planted/algorithms.hpp"
#if defined(TRUESTEP_WITH_CUDA)
#include <truestep/gpu/cuda_machine.hpp>
#endif

namespace truestep::gpu::planted {

namespace {

/// A machine that runs what it is told, but for one mistake.
template <class Base>
class Machine : public Base {
  public:
    Machine(Base base, Bug bug) : Base(std::move(base)), bug_(bug) {}

    template <class Algorithm>
    void run(Index blocks, const typename Algorithm::Arguments& arguments) {
        constexpr bool watching = std::is_same_v<Algorithm, WatchingPass>;
        if constexpr (watching || std::is_same_v<Algorithm, LocalPass>) {
            LocalPassArguments a = arguments;
            if (bug_ == Bug::offsets_of_previous_mask) {
                a.current.ranks = a.last.ranks;
                a.current.offsets = a.last.offsets;
            }
            if (bug_ == Bug::tail_of_last_block)
                a.size -= a.size % quad_size; // whole loads of 16 bytes, and nothing after them
            if (bug_ == Bug::fused_multiply_add)
                Base::template run<FusedLocalPass<watching>>(blocks, a);
            else
                Base::template run<Algorithm>(blocks, a);
            if (bug_ == Bug::subnormals_flushed && watching) // which comes last
                Base::template run<FlushToZero>((a.size + tile - 1) / tile, {a.size, a.e});
        } else if constexpr (std::is_same_v<Algorithm, RoundPayload>) {
            if (bug_ == Bug::payload_cut_off)
                return Base::template run<PayloadCutOff>(blocks, arguments);
            if (bug_ == Bug::rounding_dropped)
                return Base::template run<PayloadWithoutRest>(blocks, arguments);
            Base::template run<RoundPayload>(blocks, arguments);
        } else if constexpr (std::is_same_v<Algorithm, SquareSums>) {
            if (bug_ == Bug::missing_barrier)
                return Base::template run<Unbarred<SquareSums>>(blocks, arguments);
            Base::template run<SquareSums>(blocks, arguments);
        } else {
            Base::template run<Algorithm>(blocks, arguments);
        }
    }

    /// Wrong offsets shall hit wrong values, not foreign memory.
    template <class T>
    void resize(typename Base::template Vector<T>& vector, Index size) {
        constexpr Index room = 16'384;
        constexpr bool addressed = std::is_same_v<T, float> || std::is_same_v<T, std::uint8_t>;
        Base::resize(vector, addressed ? size + room : size);
    }

  private:
    Bug bug_;
};

/// A stream that has streams beside it which wait for nobody.
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
std::unique_ptr<distributed::Communicator> communicator(Bug bug, distributed::Communicator& ranks,
                                                        const Base& stream) {
    if (bug == Bug::mask_buffer_not_waited_for)
        return std::make_unique<StreamCommunicator<Stream<Base>>>(ranks, Stream<Base>(stream, false));
    return std::make_unique<StreamCommunicator<Base>>(ranks, stream);
}

} // namespace

const std::vector<Description>& bugs() {
    static const std::vector<Description> all{
        {"missing barrier", "A sum over threads adds what others have not written yet: the norm of ghat is "
                            "another. Needs clipping."},
        {"mask buffer read before it is written",
         "The gather's stream does not wait for selection: now and then a mask is the last one, or none "
         "at all. Needs P >= 2."},
        {"stale offsets: those of the previous mask",
         "Packed values land on other coordinates. Needs a mask that changes and more than 64 "
         "coordinates."},
        {"contraction", "The last bit of c differs. Needs products that are not exact."},
        {"flush to zero", "Subnormal residuals turn to 0. Needs such values, and a density below 1."},
        {"tail of the last block",
         "The last one to three coordinates never get their gradient, and send what "
         "stood there. Needs a d that "
         "does not divide by 4."},
        {"the payload is cut off, not rounded", "Always towards 0. Needs a payload of bf16 or e5m2."},
        {"what rounding the payload takes is dropped",
         "The residual on the mask is 0: what is lost never comes back. Needs a payload of bf16 or "
         "e5m2."}};
    return all;
}

std::unique_ptr<distributed::Backend> make_block_backend(Bug bug, const problem::Problem& problem,
                                                         std::span<const float> parameters,
                                                         const BlockOptions& options,
                                                         const HostStream& stream) {
    return std::make_unique<BlockBackend<Machine<HostMachine>>>(
        problem, parameters, Machine<HostMachine>(HostMachine(stream, options.exchange), bug),
        options.group_tiles);
}

std::unique_ptr<distributed::Communicator>
make_block_communicator(Bug bug, distributed::Communicator& ranks, const HostStream& stream) {
    return communicator(bug, ranks, stream);
}

#if defined(TRUESTEP_WITH_CUDA)

std::unique_ptr<distributed::Backend> make_cuda_backend(Bug bug, const problem::Problem& problem,
                                                        std::span<const float> parameters,
                                                        const CudaStream& stream) {
    return std::make_unique<BlockBackend<Machine<CudaMachine>>>(
        problem, parameters, Machine<CudaMachine>(CudaMachine(stream, Exchange::device), bug), 0);
}

std::unique_ptr<distributed::Communicator> make_cuda_communicator(Bug bug, distributed::Communicator& ranks,
                                                                  const CudaStream& stream) {
    return communicator(bug, ranks, CudaDeviceStream(stream));
}

#endif

} // namespace truestep::gpu::planted
