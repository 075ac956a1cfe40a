// The workers of gpu/gasloc as implementations under test, and the known bugs planted in them: the host's
// form anywhere, the devices' where there are devices.
#include "devices.hpp"

#include <string>
#include <utility>

#include <truestep/gpu/availability.hpp>
#include <truestep/gpu/forms.hpp>
#include <truestep/gpu/gasloc/devices.hpp>
#include <truestep/gpu/gasloc/planted_devices.hpp>
#include <truestep/gpu/local_rank.hpp>
#if defined(TRUESTEP_WITH_NCCL)
#include <truestep/gpu/nccl.hpp>
#endif

#include "planted/numbers.hpp"
#include "workers.hpp"

namespace truestep::properties::gasloc {

namespace {

using distributed::Peers;
using gpu::gasloc::device_known_bugs::KnownBug;

/// A worker over a backend on a stream, with its peers.
template <class Stream>
OwnedWorker housed(KnownBug known_bug, const Settings& settings, State state, Peers& ranks,
                   const Stream& stream) {
    auto [peers, backend] = gpu::gasloc::device_known_bugs::on_stream(known_bug, ranks, stream);
    auto worker = std::make_unique<Worker>(settings, std::move(state), *peers, std::move(backend));
    return {std::move(peers), std::move(worker)};
}

RankFactory blocks(KnownBug known_bug) {
    return subjects_of([known_bug](const Settings& settings, State state, Peers& ranks, int threads) {
        return housed(known_bug, settings, std::move(state), ranks,
                      gpu::HostStream::in_turn(ranks.rank(), threads));
    });
}

/// All ranks on the first device. With more than one thread, launches go through graphs.
RankFactory one_device([[maybe_unused]] KnownBug known_bug) {
#if defined(TRUESTEP_WITH_CUDA)
    return subjects_of([known_bug](const Settings& settings, State state, Peers& ranks, int threads) {
        gpu::set_schedule(ranks.rank());
        const bool graphs = known_bug == KnownBug::none && threads > 1;
        const gpu::CudaStream stream({.device = 0, .stream = nullptr, .graphs = graphs});
        return housed(known_bug, settings, std::move(state), ranks, stream);
    });
#else
    return {};
#endif
}

/// One device for each rank of this machine.
RankFactory a_device_each([[maybe_unused]] Peers& ranks) {
#if defined(TRUESTEP_WITH_NCCL)
    const int devices = gpu::availability().devices;
    gpu::set_schedule(ranks.rank());
    const gpu::CudaStream stream(
        {.device = gpu::local_rank(ranks) % devices, .stream = nullptr, .graphs = false});
    RankFactory subjects =
        subjects_of([stream](const Settings& settings, State state, Peers& counted, int) {
            return OwnedWorker{nullptr, std::make_unique<Worker>(settings, std::move(state), counted,
                                                                 gpu::gasloc::make_cuda_backend(stream))};
        });
    subjects.peers = gpu::make_nccl_peers(ranks, stream);
    return subjects;
#else
    return {};
#endif
}

} // namespace

gate::Implementations on_devices(const std::shared_ptr<const gate::Group>& group) {
    const gpu::Form device = gpu::form_of_one_device();
    const gpu::Form device_each = gpu::form_of_a_device_each(group->name() == "in_process");
    gate::Placement each = gate::placement_of(device_each);
    each.unsupported = {{"no_barrier", "a group waits until all neighbours are there (docs/gasloc.md)"}};
    return {std::make_shared<Workers>("cuda-blocks", blocks(KnownBug::none), group),
            std::make_shared<Workers>(device.name, one_device(KnownBug::none), group,
                                      gate::placement_of(device)),
            std::make_shared<Workers>(device_each.name, a_device_each, group, std::move(each))};
}

const gpu::DeviceMistakes& known_bugs_on_devices() {
    static const gpu::DeviceMistakes all{first_on_devices, gpu::gasloc::device_known_bugs::descriptions()};
    return all;
}

std::shared_ptr<const gate::Implementation>
device_known_bug(int number, const std::string& name, const std::shared_ptr<const gate::Group>& group) {
    const auto known_bug = static_cast<KnownBug>(known_bugs_on_devices().planted_as(number));
    if (!known_bugs_on_devices().on_device(number))
        return std::make_shared<Workers>(name, blocks(known_bug), group);
    return std::make_shared<Workers>(name, one_device(known_bug), group,
                                     gate::placement_of(gpu::form_of_one_device()));
}

} // namespace truestep::properties::gasloc
