// The implementations of gpu/scape as candidates: the host's form anywhere, the devices' where there are
// some.
#include <truestep/properties/sharded.hpp>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <truestep/gpu/availability.hpp>
#include <truestep/gpu/block_backend.hpp>
#include <truestep/gpu/communicators.hpp>
#include <truestep/gpu/local_rank.hpp>
#if defined(TRUESTEP_WITH_CUDA)
#include <truestep/gpu/cuda_backend.hpp>
#endif
#if defined(TRUESTEP_WITH_NCCL)
#include <truestep/gpu/nccl.hpp>
#endif

namespace truestep::properties {

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
    result.reserve(variants.size());
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

#if defined(TRUESTEP_WITH_CUDA)

/// All ranks on the first device. With the second variant its launches go through graphs.
MakePlace one_device(const Group& group, Reduction reduction) {
    const Exchange exchange = same_process(group) ? Exchange::device : Exchange::host;
    return [exchange, reduction](const Setup& setup, Communicator& ranks) {
        gpu::set_schedule(1 + 1024 * static_cast<std::uint64_t>(ranks.rank()));
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

#if defined(TRUESTEP_WITH_NCCL)

/// A device for each rank of this machine.
MakePlace a_device_each(Reduction reduction) {
    return [reduction](const Setup& setup, Communicator& ranks) {
        const int devices = gpu::availability().devices;
        gpu::set_schedule(1 + 1024 * static_cast<std::uint64_t>(ranks.rank()));
        const gpu::CudaStream stream(
            {.device = gpu::local_rank(ranks) % devices, .stream = nullptr, .graphs = setup.variant == 1});
        return std::make_unique<StreamPlace<gpu::CudaStream>>(
            stream, ranks, gpu::make_nccl_communicator(ranks, stream),
            [](const Setup& of, const gpu::CudaStream& on) {
                return gpu::make_cuda_backend(of.problem, of.parameters, on, Exchange::device);
            },
            reduction);
    };
}

/// Machines that mpirun has spread the ranks over, by what it tells them.
int machines() {
    const auto told = [](const char* name) {
        const char* const text = std::getenv(name);
        return text == nullptr ? 0
                               : std::atoi(text); // NOLINT(cert-err34-c): 0 will do for what is no number
    };
    // Open MPI, and MPICH with those that come from it.
    const int here = std::max(told("OMPI_COMM_WORLD_LOCAL_SIZE"), told("MPI_LOCALNRANKS"));
    const int all = std::max(told("OMPI_COMM_WORLD_SIZE"), told("PMI_SIZE"));
    return here == 0 ? 1 : std::max(1, all / here);
}

std::string nccl_is_missing() {
    return {};
}
std::string nccl() {
    return gpu::nccl_description();
}

#else

MakePlace a_device_each(Reduction) {
    return {};
}
int machines() {
    return 1;
}
std::string nccl_is_missing() {
    return "built without NCCL; TRUESTEP_NCCL_ROOT says where it is";
}
std::string nccl() {
    return {};
}

#endif

} // namespace

std::vector<Ranked> on_devices(const Group& group) {
    using verify::LevelKind;
    const gpu::Availability here = gpu::availability();
    const std::string none = here.devices == 0 ? here.text : std::string();
    // The simulator is none, and no report may say so: what runs on it has a name of its own.
    const std::string device = here.devices == 0 || here.simulated ? std::string() : here.text;
    const gate::LeftOut slow =
        here.simulated ? gate::LeftOut{{"many steps", "66 000 steps take minutes"}} : gate::LeftOut{};
    const std::string cuda = here.simulated ? "cuda-simulated" : "cuda";
    constexpr Index small = 20'000;
    std::vector<Ranked> all;
    const auto add = [&](Ranked ranked) {
        ranked.compares_starts = true; // the step and its agreements are the host's
        all.push_back(std::move(ranked));
    };
    add({.name = "cuda-blocks",
         .level = LevelKind::exact,
         .variants = names(block_variants(Reduction::ordered)),
         .place = blocks(group, Reduction::ordered),
         .like = "host", // the step, what ranks agree on and the files are the host's
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
         .most_parameters = small}); // of large ones: the blocks' above, and host-native's order of sums
    add({.name = cuda,
         .level = LevelKind::exact,
         .variants = {"launches", "graphs"},
         .place = one_device(group, Reduction::ordered),
         .unavailable = none,
         .runs_on = device,
         .left_out = slow,
         .takes_parts = true,
         .rounds_payloads = true,
         .adds_groups = true,
         .takes_states = true});
    add({.name = cuda + "-native",
         .level = LevelKind::rel,
         .variants = {"launches", "graphs"},
         .place = one_device(group, Reduction::native),
         .unavailable = none,
         .runs_on = device,
         .left_out = slow,
         .like = cuda,
         .takes_parts = true});
    const std::string apart =
        here.simulated && !same_process(group)
            ? "simulated NCCL joins the ranks of one process; leave out --communicator mpi"
            : "";
    const std::string no_nccl = !none.empty() ? none : apart.empty() ? nccl_is_missing() : apart;
    const std::string with_nccl = here.simulated ? "cuda-nccl-simulated" : "cuda-nccl";
    for (const Reduction reduction : {Reduction::ordered, Reduction::native})
        add({.name = with_nccl + (reduction == Reduction::ordered ? "" : "-native"),
             .level = reduction == Reduction::ordered ? LevelKind::exact : LevelKind::rel,
             .variants = {"launches", "graphs"},
             .place = a_device_each(reduction),
             .unavailable = no_nccl,
             .most_workers = no_nccl.empty() ? here.devices * machines() : std::numeric_limits<int>::max(),
             .runs_on = no_nccl.empty() && !here.simulated ? nccl() : std::string(),
             .left_out = slow,
             .like = reduction == Reduction::ordered ? "" : with_nccl,
             .takes_parts = true,
             .rounds_payloads = reduction == Reduction::ordered,
             .adds_groups = reduction == Reduction::ordered,
             .takes_states = reduction == Reduction::ordered});
    return all;
}

} // namespace truestep::properties
