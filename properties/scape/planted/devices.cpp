// The bugs of gpu/scape/planted as the gate sees them: in the host's form anywhere, on a device where there
// is one.
#include "devices.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include <truestep/gpu/availability.hpp>
#include <truestep/gpu/planted.hpp>
#include <truestep/properties/sharded.hpp>

namespace truestep::planted {

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

#if defined(TRUESTEP_WITH_CUDA)

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

/// Bugs that were planted together: their numbers in the host's form are followed by those on a device.
struct Together {
    int first_number;
    gpu::planted::Bug first;
    gpu::planted::Bug last;

    [[nodiscard]] int count() const { return static_cast<int>(last) - static_cast<int>(first) + 1; }
    [[nodiscard]] bool has(int number) const {
        return number >= first_number && number < first_number + 2 * count();
    }
};
constexpr std::array all_together{
    Together{first_of_devices, gpu::planted::Bug::missing_barrier, gpu::planted::Bug::tail_of_last_block},
    Together{first_of_device_payloads, gpu::planted::Bug::payload_cut_off,
             gpu::planted::Bug::rounding_dropped}};

const Together* together_with(int number) {
    const auto* const found =
        std::ranges::find_if(all_together, [number](const Together& some) { return some.has(number); });
    return found == all_together.end() ? nullptr : found;
}

} // namespace

bool is_of_devices(int number) {
    return together_with(number) != nullptr;
}

std::vector<Description> device_descriptions(int first) {
    std::vector<Description> all;
    const bool simulated = gpu::availability().simulated;
    const Together& some = *together_with(first);
    for (const std::string where :
         {"blocks, in the host's form", simulated ? "kernels, simulated" : "kernels on a device"})
        for (int i = 0; i < some.count(); ++i) {
            const auto& bug = gpu::planted::bugs().at(static_cast<std::size_t>(some.first) +
                                                      static_cast<std::size_t>(i) - 1);
            all.push_back({first++, where + ": " + bug.name, bug.shows});
        }
    return all;
}

properties::Ranked device_bug(int number) {
    const Together& some = *together_with(number);
    const int count = some.count();
    const int place = number - some.first_number;
    const auto bug = static_cast<gpu::planted::Bug>(static_cast<int>(some.first) + place % count);
    properties::Ranked ranked{.name = "", .level = verify::LevelKind::exact};
    ranked.rounds_payloads = some.first_number == first_of_device_payloads;
    if (place < count) {
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

} // namespace truestep::planted
