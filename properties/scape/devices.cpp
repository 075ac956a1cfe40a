// The implementations of gpu/scape for the gate: the host's form anywhere, the devices' where there are
// devices.
#include <truestep/properties/scape/sharded.hpp>

#include <algorithm>
#include <utility>

#include <truestep/gpu/availability.hpp>
#include <truestep/gpu/forms.hpp>
#include <truestep/gpu/local_rank.hpp>
#include <truestep/gpu/scape/cuda_backend.hpp>
#include <truestep/gpu/scape/planted.hpp>
#if defined(TRUESTEP_WITH_NCCL)
#include <truestep/gpu/nccl.hpp>
#endif

namespace truestep::properties::scape {

namespace {

using distributed::Communicator;
using distributed::scape::Reduction;
using gpu::Exchange;
using gpu::scape::planted::Bug;

bool same_process(const Group& group) {
    return group.name() == "in_process";
}

/// Each communicator of `native` may add in another order.
std::vector<gpu::scape::BlockOptions> block_variants(Reduction reduction) {
    std::vector<gpu::scape::BlockOptions> all = gpu::scape::block_variants();
    if (reduction == Reduction::native)
        std::erase_if(all, [](const gpu::scape::BlockOptions& options) {
            return options.exchange != Exchange::device;
        });
    return all;
}

std::vector<std::string> names(const std::vector<gpu::scape::BlockOptions>& variants) {
    std::vector<std::string> result;
    result.reserve(variants.size());
    for (const gpu::scape::BlockOptions& options : variants)
        result.push_back(gpu::scape::name(options));
    return result;
}

MakePlace blocks(const Group& group, Reduction reduction, Bug bug = Bug::none) {
    return [threads = same_process(group), reduction, bug](const Setup& setup, Communicator& ranks) {
        gpu::scape::BlockOptions options = block_variants(reduction).at(setup.variant);
        if (!threads)
            options.exchange = Exchange::host;
        // Streams of different ranks are early and late with different work.
        options.seed += 16 * static_cast<std::uint64_t>(ranks.rank());
        const gpu::HostStream stream = gpu::scape::make_block_stream(options);
        return std::make_unique<StreamPlace<gpu::HostStream>>(
            stream, ranks,
            options.exchange == Exchange::device
                ? gpu::scape::planted::make_communicator(bug, ranks, stream)
                : nullptr,
            [bug, options](const Setup& of, const gpu::HostStream& on) {
                return gpu::scape::planted::make_backend(bug, of.problem, of.parameters, options, on);
            },
            reduction);
    };
}

/// All ranks on the first device. With the second variant launches go through graphs.
MakePlace one_device([[maybe_unused]] const Group& group, [[maybe_unused]] Reduction reduction,
                     [[maybe_unused]] Bug bug = Bug::none) {
#if defined(TRUESTEP_WITH_CUDA)
    const Exchange exchange = same_process(group) ? Exchange::device : Exchange::host;
    return [exchange, reduction, bug](const Setup& setup, Communicator& ranks) {
        gpu::set_schedule(ranks.rank());
        const gpu::CudaStream stream({.device = 0, .stream = nullptr, .graphs = setup.variant == 1});
        return std::make_unique<StreamPlace<gpu::CudaStream>>(
            stream, ranks,
            exchange == Exchange::device ? gpu::scape::planted::make_communicator(bug, ranks, stream)
                                         : nullptr,
            [exchange, bug](const Setup& of, const gpu::CudaStream& on) {
                return gpu::scape::planted::make_backend(bug, of.problem, of.parameters, exchange, on);
            },
            reduction);
    };
#else
    return {};
#endif
}

/// One device for each rank of this machine.
MakePlace a_device_each([[maybe_unused]] Reduction reduction) {
#if defined(TRUESTEP_WITH_NCCL)
    return [reduction](const Setup& setup, Communicator& ranks) {
        const int devices = gpu::availability().devices;
        gpu::set_schedule(ranks.rank());
        const gpu::CudaStream stream(
            {.device = gpu::local_rank(ranks) % devices, .stream = nullptr, .graphs = setup.variant == 1});
        return std::make_unique<StreamPlace<gpu::CudaStream>>(
            stream, ranks, gpu::make_nccl_communicator(ranks, stream),
            [](const Setup& of, const gpu::CudaStream& on) {
                return gpu::scape::make_cuda_backend(of.problem, of.parameters, on, Exchange::device);
            },
            reduction);
    };
#else
    return {};
#endif
}

gate::Unsupported too_slow() {
    return gpu::simulated() ? gate::Unsupported{{"many steps", "66 000 steps take minutes"}}
                            : gate::Unsupported{};
}

} // namespace

std::vector<ImplementationSpec> on_devices(const Group& group) {
    using verify::LevelKind;
    const gpu::Form device = gpu::form_of_one_device();
    const gpu::Form each = gpu::form_of_a_device_each(same_process(group));
    constexpr Index small = 20'000;
    std::vector<ImplementationSpec> all;
    const auto add = [&](ImplementationSpec ranked) {
        ranked.compares_starts = ranked.names_differences = true; // the step's agreements are the host's
        all.push_back(std::move(ranked));
    };
    add({.name = "cuda-blocks",
         .level = LevelKind::exact,
         .variants = names(block_variants(Reduction::ordered)),
         .place = blocks(group, Reduction::ordered),
         .like = "host", // the step, the agreements and the files are the host's
         .takes_parts = true,
         .rounds_payloads = true,
         .adds_groups = true,
         .takes_states = true,
         .shares_folders = true});
    add({.name = "cuda-blocks-native",
         .level = LevelKind::rel,
         .variants = names(block_variants(Reduction::native)),
         .place = blocks(group, Reduction::native),
         .like = "cuda-blocks",
         .takes_parts = true,
         .shares_folders = true,
         .most_parameters = small}); // cuda-blocks covers large ones, and host-native the order of sums
    add({.name = device.name,
         .level = LevelKind::exact,
         .variants = {"launches", "graphs"},
         .place = one_device(group, Reduction::ordered),
         .unavailable = device.unavailable,
         .runs_on = device.runs_on,
         .unsupported = too_slow(),
         .takes_parts = true,
         .rounds_payloads = true,
         .adds_groups = true,
         .takes_states = true});
    add({.name = device.name + "-native",
         .level = LevelKind::rel,
         .variants = {"launches", "graphs"},
         .place = one_device(group, Reduction::native),
         .unavailable = device.unavailable,
         .runs_on = device.runs_on,
         .unsupported = too_slow(),
         .like = device.name,
         .takes_parts = true});
    for (const Reduction reduction : {Reduction::ordered, Reduction::native})
        add({.name = each.name + (reduction == Reduction::ordered ? "" : "-native"),
             .level = reduction == Reduction::ordered ? LevelKind::exact : LevelKind::rel,
             .variants = {"launches", "graphs"},
             .place = a_device_each(reduction),
             .unavailable = each.unavailable,
             .most_workers = each.most_ranks,
             .runs_on = each.runs_on,
             .unsupported = too_slow(),
             .like = reduction == Reduction::ordered ? "" : each.name,
             .takes_parts = true,
             .rounds_payloads = reduction == Reduction::ordered,
             .adds_groups = reduction == Reduction::ordered,
             .takes_states = reduction == Reduction::ordered});
    return all;
}

ImplementationSpec with_device_bug(const Group& group, int number, bool on_device) {
    const auto bug = static_cast<Bug>(number);
    if (!on_device)
        return {.name = "", .place = blocks(group, Reduction::ordered, bug)};
    const gpu::Form device = gpu::form_of_one_device();
    return {.name = "",
            .place = one_device(group, Reduction::ordered, bug),
            .unavailable = device.unavailable,
            .runs_on = device.runs_on,
            .unsupported = too_slow()};
}

} // namespace truestep::properties::scape
