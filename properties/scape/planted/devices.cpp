// The bugs of gpu/scape/planted as the gate sees them: in the host's form anywhere, on a device where there
// is one.
#include "devices.hpp"

#include <scape/gpu/availability.hpp>
#include <scape/gpu/planted.hpp>
#include <scape/properties/sharded.hpp>

namespace scape::planted {

namespace {

using distributed::Communicator;
using distributed::Reduction;
using properties::Setup;

properties::MakePlace in_host_form(gpu::planted::Bug bug) {
    return [bug](const Setup&, Communicator& ranks) {
        gpu::BlockOptions options{.exchange = gpu::Exchange::device};
        options.seed += 16 * static_cast<std::uint64_t>(ranks.rank());
        const gpu::HostStream stream = gpu::make_block_stream(options);
        return std::make_unique<properties::StreamPlace<gpu::HostStream>>(
            stream, ranks, gpu::planted::make_block_communicator(bug, ranks, stream),
            [bug, options](const Setup& of, const gpu::HostStream& on) {
                return gpu::planted::make_block_backend(bug, of.problem, of.parameters, options, on);
            },
            Reduction::ordered);
    };
}

#if defined(SCAPE_WITH_CUDA)

properties::MakePlace on_device(gpu::planted::Bug bug) {
    return [bug](const Setup&, Communicator& ranks) {
        gpu::set_schedule(1 + 1024 * static_cast<std::uint64_t>(ranks.rank()));
        const gpu::CudaStream stream;
        return std::make_unique<properties::StreamPlace<gpu::CudaStream>>(
            stream, ranks, gpu::planted::make_cuda_communicator(bug, ranks, stream),
            [bug](const Setup& of, const gpu::CudaStream& on) {
                return gpu::planted::make_cuda_backend(bug, of.problem, of.parameters, on);
            },
            Reduction::ordered);
    };
}

#else

properties::MakePlace on_device(gpu::planted::Bug) {
    return {};
}

#endif

} // namespace

std::vector<Description> device_descriptions(int first) {
    std::vector<Description> all;
    const bool simulated = gpu::availability().simulated;
    for (const std::string where :
         {"blocks, in the host's form", simulated ? "kernels, simulated" : "kernels on a device"})
        for (const auto& bug : gpu::planted::bugs())
            all.push_back({first++, where + ": " + bug.name, bug.shows});
    return all;
}

properties::Ranked device_bug(int number) {
    const auto count = static_cast<int>(gpu::planted::bugs().size());
    const auto bug = static_cast<gpu::planted::Bug>(1 + number % count);
    properties::Ranked ranked{.name = "", .level = verify::LevelKind::exact};
    if (number < count) {
        ranked.place = in_host_form(bug);
        return ranked;
    }
    ranked.place = on_device(bug);
    const gpu::Availability here = gpu::availability();
    if (here.simulated)
        ranked.left_out = {{"many steps", "66 000 steps take minutes"}};
    else
        (here.devices == 0 ? ranked.unavailable : ranked.runs_on) = here.text;
    return ranked;
}

} // namespace scape::planted
