#include <truestep/mapl/planted_devices.hpp>

#include <type_traits>
#include <utility>

#include <truestep/gpu/host_machine.hpp>
#include <truestep/gpu/staged_peers.hpp>

#include "backend.hpp"
#include "host_products.hpp"
#include "planted/algorithms.hpp"
#include "standing.hpp"
#if defined(TRUESTEP_WITH_CUBLAS)
#include <truestep/gpu/cuda_machine.hpp>

#include "cublas_products.hpp"
#endif

namespace truestep::mapl::device_mistakes {

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
        if constexpr (requires { a.size; }) {
            if (mistake_ == Mistake::last_values_left_out)
                a.size -= a.size % 4; // in fours, and nothing after them
        }
        if constexpr (std::is_same_v<Algorithm, gpu::boundary::SquareSums>) {
            if (mistake_ == Mistake::barrier_missing)
                return Base::template run<gpu::boundary::planted::UnbarredSums>(blocks, a);
        }
        if constexpr (std::is_same_v<Algorithm, gpu::boundary::AddRows>) {
            if (mistake_ == Mistake::rows_added_at_once)
                return Base::template run<gpu::boundary::planted::AddRowsAtOnce>(blocks, a);
        }
        Base::template run<Algorithm>(blocks, a);
    }

    template <class T>
    void download(T* to, const T* from, Index size) {
        constexpr bool verdict = std::is_same_v<T, std::uint32_t>;
        if (verdict && size == 1 && mistake_ == Mistake::verdict_not_waited_for)
            return; // it would come into the caller's variable, which is 0 before
        Base::download(to, from, size);
    }

    void finish() {
        if (mistake_ != Mistake::sent_before_written)
            Base::finish();
    }

  private:
    Mistake mistake_;
};

template <class Products, class Base>
std::unique_ptr<Backend> backend(Mistake mistake, Base base, Products products) {
    // Of sending, the peers' machine alone makes the mistake.
    if (mistake == Mistake::sent_before_written)
        return std::make_unique<BlockBackend<Base, Products>>(std::move(base), std::move(products));
    return std::make_unique<BlockBackend<Machine<Base>, Products>>(Machine<Base>(std::move(base), mistake),
                                                                   std::move(products));
}

template <class Base>
std::unique_ptr<distributed::Peers> peers(Mistake mistake, distributed::Peers& ranks, Base base) {
    return std::make_unique<gpu::StagedPeers<Machine<Base>>>(ranks, Machine<Base>(std::move(base), mistake),
                                                             standing_on_machine());
}

} // namespace

const std::vector<Description>& descriptions() {
    static const std::vector<Description> all{
        {"a barrier is missing where halves are added",
         "The norm of m is of some of its values, and d no polar. Needs more than four of them."},
        {"the last values are left out", "The last one to three of Z, dZ or m are what stood there. Needs "
                                         "a size that does not divide by 4."},
        {"a message is sent before the stream has written it",
         "The other side gets what stood there before. Needs a device that is late."},
        {"the verdict on what is not finite is not waited for",
         "An activation or a gradient that is not finite is sent. Needs one."},
        {"rows are added to their ids at once", "Of tokens with the same id one counts. Needs two."}};
    return all;
}

std::unique_ptr<Backend> make_block_backend(Mistake mistake, const gpu::HostStream& stream) {
    const gpu::HostMachine machine(stream, Exchange::device);
    return backend(mistake, machine, HostProducts(machine));
}
std::unique_ptr<distributed::Peers> make_block_peers(Mistake mistake, distributed::Peers& ranks,
                                                     const gpu::HostStream& stream) {
    return peers(mistake, ranks, gpu::HostMachine(stream, Exchange::host));
}

#if defined(TRUESTEP_WITH_CUBLAS)

std::unique_ptr<Backend> make_cuda_backend(Mistake mistake, const gpu::CudaStream& stream) {
    return backend(mistake, gpu::CudaMachine(stream, Exchange::device), CublasProducts(stream));
}
std::unique_ptr<distributed::Peers> make_cuda_peers(Mistake mistake, distributed::Peers& ranks,
                                                    const gpu::CudaStream& stream) {
    return peers(mistake, ranks, gpu::CudaMachine(stream, Exchange::host));
}

#endif

} // namespace truestep::mapl::device_mistakes
