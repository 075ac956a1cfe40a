// The workers of gpu/gasloc as candidates, and the mistakes planted in them: the host's form anywhere, the
// devices' where there are some.
#include "devices.hpp"

#include <array>
#include <string>
#include <utility>

#include <truestep/gasloc/devices.hpp>
#include <truestep/gasloc/planted_devices.hpp>
#include <truestep/gpu/availability.hpp>
#include <truestep/gpu/local_rank.hpp>
#include <truestep/gpu/peers.hpp>
#if defined(TRUESTEP_WITH_NCCL)
#include <truestep/gpu/nccl.hpp>
#endif

#include "workers.hpp"

namespace truestep::gasloc {

namespace {

using device_mistakes::Mistake;
using distributed::Peers;

/// A worker over a backend on a stream, with the peers for it.
template <class MakePeers>
Housed housed(const Settings& settings, State state, const MakePeers& make_peers,
              std::unique_ptr<Backend> backend) {
    const std::shared_ptr<Peers> peers = make_peers();
    auto worker = std::make_unique<Worker>(settings, std::move(state), *peers, std::move(backend));
    return {peers, std::move(worker)};
}

/// Blocks of another size for another number of threads. Streams of different ranks are early and late with
/// different work.
gpu::HostStream stream_of(int threads, int rank) {
    constexpr std::array sizes{problem::tunable(256, 64), 64, 32};
    return {sizes[static_cast<std::size_t>(threads - 1) % sizes.size()],
            1 + 16 * static_cast<std::uint64_t>(rank) + static_cast<std::uint64_t>(threads)};
}

Subjects blocks() {
    return subjects_of([](const Settings& settings, State state, Peers& ranks, int threads) {
        const gpu::HostStream stream = stream_of(threads, ranks.rank());
        return housed(
            settings, std::move(state), [&] { return gpu::make_block_peers(ranks, stream); },
            make_block_backend(stream));
    });
}

Subjects blocks_with(Mistake mistake) {
    return subjects_of([mistake](const Settings& settings, State state, Peers& ranks, int threads) {
        const gpu::HostStream stream = stream_of(threads, ranks.rank());
        return housed(
            settings, std::move(state),
            [&] { return device_mistakes::make_block_peers(mistake, ranks, stream); },
            device_mistakes::make_block_backend(mistake, stream));
    });
}

#if defined(TRUESTEP_WITH_CUDA)

/// All ranks on the first device. With more than one thread asked for, launches go through graphs.
Subjects one_device() {
    return subjects_of([](const Settings& settings, State state, Peers& ranks, int threads) {
        gpu::set_schedule(1 + 1024 * static_cast<std::uint64_t>(ranks.rank()));
        const gpu::CudaStream stream({.device = 0, .stream = nullptr, .graphs = threads > 1});
        return housed(
            settings, std::move(state), [&] { return gpu::make_cuda_peers(ranks, stream); },
            make_cuda_backend(stream));
    });
}

Subjects one_device_with(Mistake mistake) {
    return subjects_of([mistake](const Settings& settings, State state, Peers& ranks, int) {
        gpu::set_schedule(1 + 1024 * static_cast<std::uint64_t>(ranks.rank()));
        const gpu::CudaStream stream;
        return housed(
            settings, std::move(state),
            [&] { return device_mistakes::make_cuda_peers(mistake, ranks, stream); },
            device_mistakes::make_cuda_backend(mistake, stream));
    });
}

#else

Subjects one_device() {
    return {};
}
Subjects one_device_with(Mistake) {
    return {};
}

#endif

#if defined(TRUESTEP_WITH_NCCL)

/// A device for each rank of this machine.
Subjects a_device_each(Peers& ranks) {
    const int devices = gpu::availability().devices;
    gpu::set_schedule(1 + 1024 * static_cast<std::uint64_t>(ranks.rank()));
    const gpu::CudaStream stream(
        {.device = gpu::local_rank(ranks) % devices, .stream = nullptr, .graphs = false});
    Subjects subjects = subjects_of([stream](const Settings& settings, State state, Peers& counted, int) {
        return Housed{nullptr, std::make_unique<Worker>(settings, std::move(state), counted,
                                                        make_cuda_backend(stream))};
    });
    subjects.peers = gpu::make_nccl_peers(ranks, stream);
    return subjects;
}
std::string no_nccl() {
    return {};
}
std::string nccl() {
    return gpu::nccl_description();
}

#else

Subjects a_device_each(Peers&) {
    return {};
}
std::string no_nccl() {
    return "built without NCCL; TRUESTEP_NCCL_ROOT says where it is";
}
std::string nccl() {
    return {};
}

#endif

template <class Make>
std::shared_ptr<Candidate> candidate(const std::string& name, const Make& make,
                                     const std::shared_ptr<const gate::Group>& group, Seat seat = {}) {
    return std::make_shared<Workers>(
        name, [make](Peers& ranks) { return make(ranks); }, group, std::move(seat));
}

/// The simulator is no device, and no report may say so.
Seat seat_of(const gpu::Availability& here) {
    if (here.simulated)
        return {};
    return here.devices == 0 ? Seat{.unavailable = here.text} : Seat{.runs_on = here.text};
}

} // namespace

gate::Implementations on_devices(const std::shared_ptr<const gate::Group>& group) {
    const gpu::Availability here = gpu::availability();
    Seat each = seat_of(here);
    if (here.simulated && group->name() != "in_process")
        each.unavailable = "simulated NCCL joins the ranks of one process; leave out --communicator mpi";
    if (each.unavailable.empty())
        each = {.unavailable = no_nccl(),
                .runs_on = here.simulated ? std::string() : nccl(),
                .most_workers = here.devices};
    each.left_out = {{"no_barrier", "a group waits until all neighbours are there (docs/gasloc.md)"}};
    return {candidate(
                "cuda-blocks", [](Peers&) { return blocks(); }, group),
            candidate(
                here.simulated ? "cuda-simulated" : "cuda", [](Peers&) { return one_device(); }, group,
                seat_of(here)),
            candidate(here.simulated ? "cuda-nccl-simulated" : "cuda-nccl", a_device_each, group,
                      std::move(each))};
}

std::vector<gate::Mistake> mistakes_on_devices(int first) {
    std::vector<gate::Mistake> all;
    const bool simulated = gpu::availability().simulated;
    for (const std::string where :
         {"blocks, in the host's form", simulated ? "kernels, simulated" : "kernels on a device"})
        for (const auto& mistake : device_mistakes::descriptions())
            all.push_back({first++, where + ": " + mistake.name, mistake.shows});
    return all;
}

std::shared_ptr<const gate::Implementation>
device_mistake(int number, const std::string& name, const std::shared_ptr<const gate::Group>& group) {
    const auto count = static_cast<int>(device_mistakes::descriptions().size());
    const auto mistake = static_cast<Mistake>(1 + number % count);
    if (number < count)
        return candidate(
            name, [mistake](Peers&) { return blocks_with(mistake); }, group);
    return candidate(
        name, [mistake](Peers&) { return one_device_with(mistake); }, group, seat_of(gpu::availability()));
}

} // namespace truestep::gasloc
