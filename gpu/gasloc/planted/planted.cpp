#include <truestep/gasloc/planted_devices.hpp>

#include <type_traits>
#include <utility>

#include <truestep/gpu/host_machine.hpp>
#include <truestep/gpu/staged_peers.hpp>

#include "backend.hpp"
#include "planted/algorithms.hpp"
#if defined(TRUESTEP_WITH_CUDA)
#include <truestep/gpu/cuda_machine.hpp>
#endif

namespace truestep::gasloc::device_mistakes {

namespace {

using gpu::Exchange;

/// A machine that does what it is told, but for one mistake.
template <class Base>
class Machine : public Base {
  public:
    Machine(Base base, Mistake mistake) : Base(std::move(base)), mistake_(mistake) {}

    template <class Algorithm>
    void run(Index blocks, const typename Algorithm::Arguments& arguments) {
        typename Algorithm::Arguments a = arguments;
        if (mistake_ == Mistake::last_quad_left_out)
            a.size -= a.size % gpu::quad_size; // whole loads of 16 bytes, and nothing after them
        if constexpr (std::is_same_v<Algorithm, gpu::Drift>) {
            if (mistake_ == Mistake::fused_multiply_add)
                return Base::template run<gpu::planted::FusedDrift>(blocks, a);
        }
        if constexpr (std::is_same_v<Algorithm, gpu::Meet>) {
            if (mistake_ == Mistake::gossip_in_place)
                return meet_one_by_one(blocks, a);
        }
        Base::template run<Algorithm>(blocks, a);
    }

    template <class T>
    void download(T* to, const T* from, Index size) {
        constexpr bool verdict = std::is_same_v<T, std::uint32_t>;
        if (verdict && mistake_ == Mistake::verdict_not_waited_for)
            return; // it would come into the caller's variable, which is 0 before
        Base::download(to, from, size);
    }

    void finish() {
        if (mistake_ != Mistake::sent_before_written)
            Base::finish();
    }

  private:
    /// A launch for each neighbour, and each finds in y what the last has made of it.
    void meet_one_by_one(Index blocks, gpu::MeetArguments a) {
        gpu::MeetArguments one = a;
        one.met_count = 1;
        one.carries = false;
        one.of_gossiped = false;
        one.theta = const_cast<float*>(a.y); // NOLINT(cppcoreguidelines-pro-type-const-cast)
        for (Index i = 0; i < a.met_count; ++i) {
            one.met = a.met + i;
            Base::template run<gpu::Meet>(blocks, one);
        }
        a.met_count = 0;
        Base::template run<gpu::Meet>(blocks, a);
    }

    Mistake mistake_;
};

template <class Base>
std::unique_ptr<Backend> backend(Mistake mistake, Base base) {
    // Of sending, the peers' machine alone makes the mistake.
    if (mistake == Mistake::sent_before_written)
        return std::make_unique<BlockBackend<Base>>(std::move(base));
    return std::make_unique<BlockBackend<Machine<Base>>>(Machine<Base>(std::move(base), mistake));
}

template <class Base>
std::unique_ptr<distributed::Peers> peers(Mistake mistake, distributed::Peers& ranks, Base base) {
    return std::make_unique<gpu::StagedPeers<Machine<Base>>>(ranks,
                                                             Machine<Base>(std::move(base), mistake));
}

} // namespace

const std::vector<Description>& descriptions() {
    static const std::vector<Description> all{
        {"gossip in place, a launch for each neighbour",
         "The second neighbour's launch reads what the first has written. Needs a worker with two "
         "neighbours."},
        {"the last quad is left out",
         "The last one to three coordinates never move. Needs a d that does not divide by 4."},
        {"y is sent before the stream has written it",
         "Neighbours get what stood there before. Needs an edge, and a device that is late."},
        {"the verdict on a gradient is not waited for",
         "A gradient that is not finite is taken, and nobody is told. Needs such a gradient."},
        {"contraction", "The last bit of y differs. Needs products that are not exact."}};
    return all;
}

std::unique_ptr<Backend> make_block_backend(Mistake mistake, const gpu::HostStream& stream) {
    return backend(mistake, gpu::HostMachine(stream, Exchange::device));
}
std::unique_ptr<distributed::Peers> make_block_peers(Mistake mistake, distributed::Peers& ranks,
                                                     const gpu::HostStream& stream) {
    return peers(mistake, ranks, gpu::HostMachine(stream, Exchange::host));
}

#if defined(TRUESTEP_WITH_CUDA)

std::unique_ptr<Backend> make_cuda_backend(Mistake mistake, const gpu::CudaStream& stream) {
    return backend(mistake, gpu::CudaMachine(stream, Exchange::device));
}
std::unique_ptr<distributed::Peers> make_cuda_peers(Mistake mistake, distributed::Peers& ranks,
                                                    const gpu::CudaStream& stream) {
    return peers(mistake, ranks, gpu::CudaMachine(stream, Exchange::host));
}

#endif

} // namespace truestep::gasloc::device_mistakes
