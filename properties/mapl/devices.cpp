// The ends over the backends of gpu/mapl as candidates: the host's form anywhere, the devices' where there
// are some.
#include "devices.hpp"

#include <array>
#include <string>
#include <utility>

#include <scape/gpu/availability.hpp>
#include <scape/mapl/devices.hpp>
#include <scape/mapl/planted_devices.hpp>

#include "candidate.hpp"

namespace scape::mapl {

namespace {

using device_mistakes::Mistake;
using distributed::Peers;

/// Blocks of another size for each rank. Streams of different ranks are early and late with different work.
gpu::HostStream stream_of(int rank) {
    constexpr std::array sizes{problem::tunable(256, 64), 64, 32};
    return {sizes[static_cast<std::size_t>(rank) % sizes.size()],
            1 + 16 * static_cast<std::uint64_t>(rank)};
}

House blocks(Peers& ranks) {
    const gpu::HostStream stream = stream_of(ranks.rank());
    return {make_block_peers(ranks, stream), make_block_backend(stream)};
}

Builds blocks_with(Mistake mistake) {
    return [mistake](Peers& ranks) -> House {
        const gpu::HostStream stream = stream_of(ranks.rank());
        return {device_mistakes::make_block_peers(mistake, ranks, stream),
                device_mistakes::make_block_backend(mistake, stream)};
    };
}

#if defined(SCAPE_WITH_CUBLAS)

std::string no_cublas() {
    return products_unavailable();
}

/// All ranks on the first device, the first of them with launches through graphs: it has one end, and a
/// thread that puts a graph together on one stream may not allocate memory for another.
House one_device(Peers& ranks) {
    gpu::set_schedule(1 + 1024 * static_cast<std::uint64_t>(ranks.rank()));
    const gpu::CudaStream stream({.device = 0, .stream = nullptr, .graphs = ranks.rank() == 0});
    return {make_cuda_peers(ranks, stream), make_cuda_backend(stream)};
}

Builds one_device_with(Mistake mistake) {
    return [mistake](Peers& ranks) -> House {
        gpu::set_schedule(1 + 1024 * static_cast<std::uint64_t>(ranks.rank()));
        const gpu::CudaStream stream;
        return {device_mistakes::make_cuda_peers(mistake, ranks, stream),
                device_mistakes::make_cuda_backend(mistake, stream)};
    };
}

#else

std::string no_cublas() {
    return "built without cuBLAS, which multiplies matrices on a device";
}
House one_device(Peers&) {
    return {};
}
Builds one_device_with(Mistake) {
    return one_device;
}

#endif

/// The simulator is no device, and no report may say so.
Seat seat() {
    const gpu::Availability here = gpu::availability();
    if (!here.simulated && here.devices == 0)
        return {.unavailable = here.text};
    return {.unavailable = no_cublas(), .runs_on = here.simulated ? std::string() : here.text};
}

} // namespace

gate::Implementations on_devices(const std::shared_ptr<const gate::Group>& group) {
    return {std::make_shared<Candidate>("cuda-blocks", ends_in(blocks), group),
            std::make_shared<Candidate>(gpu::availability().simulated ? "cuda-simulated" : "cuda",
                                        ends_in(one_device), group, seat())};
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
        return std::make_shared<Candidate>(name, ends_in(blocks_with(mistake)), group);
    return std::make_shared<Candidate>(name, ends_in(one_device_with(mistake)), group, seat());
}

} // namespace scape::mapl
