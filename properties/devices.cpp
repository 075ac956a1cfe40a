// The implementations of gpu/ as candidates: the host's form anywhere, the devices' where there are some.
#include <scape/properties/sharded.hpp>

#include <utility>

#include <scape/gpu/availability.hpp>
#include <scape/gpu/block_backend.hpp>
#if defined(SCAPE_WITH_CUDA)
#include <scape/gpu/cuda_backend.hpp>
#endif

namespace scape::properties {

namespace {

using distributed::Communicator;
using distributed::Reduction;
using gpu::Exchange;

bool same_process(const Group& group) {
    return group.name() == "in_process";
}

/// With `native` one communicator's order of adding is another's no more.
std::vector<gpu::BlockOptions> block_variants(Reduction reduction) {
    std::vector<gpu::BlockOptions> all = gpu::block_variants();
    if (reduction == Reduction::native)
        std::erase_if(
            all, [](const gpu::BlockOptions& options) { return options.exchange != Exchange::device; });
    return all;
}

std::vector<std::string> names(const std::vector<gpu::BlockOptions>& variants) {
    std::vector<std::string> result;
    for (const gpu::BlockOptions& options : variants)
        result.push_back(gpu::name(options));
    return result;
}

MakePlace blocks(const Group& group, Reduction reduction) {
    return [threads = same_process(group), reduction](const Setup& setup, Communicator& ranks) {
        gpu::BlockOptions options = block_variants(reduction).at(setup.variant);
        if (!threads)
            options.exchange = Exchange::host;
        // Streams of different ranks are early and late with different work.
        options.seed += 16 * static_cast<std::uint64_t>(ranks.rank());
        const gpu::HostStream stream = gpu::make_block_stream(options);
        return std::make_unique<StreamPlace<gpu::HostStream>>(
            stream, ranks,
            options.exchange == Exchange::device ? gpu::make_block_communicator(ranks, stream) : nullptr,
            [options](const Setup& of, const gpu::HostStream& on) {
                return gpu::make_block_backend(of.problem, of.parameters, options, on);
            },
            reduction);
    };
}

#if defined(SCAPE_WITH_CUDA)

/// All ranks on the first device. With the second variant its launches go through graphs.
MakePlace one_device(const Group& group, Reduction reduction) {
    const Exchange exchange = same_process(group) ? Exchange::device : Exchange::host;
    return [exchange, reduction](const Setup& setup, Communicator& ranks) {
        const gpu::CudaStream stream({.device = 0, .stream = nullptr, .graphs = setup.variant == 1});
        return std::make_unique<StreamPlace<gpu::CudaStream>>(
            stream, ranks,
            exchange == Exchange::device ? gpu::make_cuda_communicator(ranks, stream) : nullptr,
            [exchange](const Setup& of, const gpu::CudaStream& on) {
                return gpu::make_cuda_backend(of.problem, of.parameters, on, exchange);
            },
            reduction);
    };
}

#else

MakePlace one_device(const Group&, Reduction) {
    return {};
}

#endif

} // namespace

std::vector<Ranked> on_devices(const Group& group) {
    using verify::LevelKind;
    const gpu::Availability here = gpu::availability();
    const std::string none = here.devices == 0 ? here.text : std::string();
    const std::string device = here.devices == 0 ? std::string() : here.text;
    std::vector<Ranked> all;
    const auto add = [&](Ranked ranked) { all.push_back(std::move(ranked)); };
    add({.name = "cuda-blocks",
         .level = LevelKind::exact,
         .variants = names(block_variants(Reduction::ordered)),
         .place = blocks(group, Reduction::ordered)});
    add({.name = "cuda-blocks-native",
         .level = LevelKind::rel,
         .variants = names(block_variants(Reduction::native)),
         .place = blocks(group, Reduction::native)});
    add({.name = "cuda",
         .level = LevelKind::exact,
         .variants = {"launches", "graphs"},
         .place = one_device(group, Reduction::ordered),
         .unavailable = none,
         .runs_on = device});
    add({.name = "cuda-native",
         .level = LevelKind::rel,
         .variants = {"launches", "graphs"},
         .place = one_device(group, Reduction::native),
         .unavailable = none,
         .runs_on = device});
    return all;
}

} // namespace scape::properties
