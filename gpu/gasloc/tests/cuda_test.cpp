// Compares a worker on a device with the host's, where there is a device.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/gpu/availability.hpp>

#if defined(TRUESTEP_WITH_CUDA)
#include <truestep/distributed/gasloc/worker.hpp>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/gpu/gasloc/devices.hpp>
#include <truestep/gpu/peers.hpp>
#if defined(TRUESTEP_WITH_NCCL)
#include <truestep/gpu/nccl.hpp>
#endif

namespace truestep::gpu::gasloc {
namespace {

using distributed::Peers;
using Floats = std::vector<float>;

/// How the device's workers exchange: through the host, the same with graphs, or with a device
/// each.
enum class Way : std::uint8_t { launches, graphs, nccl };

std::string name_of(const testing::TestParamInfo<Way>& info) {
    return info.param == Way::launches ? "launches" : info.param == Way::graphs ? "graphs" : "nccl";
}

/// The reason why this cannot be tested here, or empty.
std::string unavailable(Way way) {
    if (const gpu::Availability here = gpu::availability(); here.devices == 0)
        return here.text;
#if !defined(TRUESTEP_WITH_NCCL)
    if (way == Way::nccl)
        return "built without NCCL";
#else
    static_cast<void>(way);
#endif
    return {};
}

std::unique_ptr<Peers> peers_of(Way way, Peers& ranks, const gpu::CudaStream& stream) {
#if defined(TRUESTEP_WITH_NCCL)
    if (way == Way::nccl)
        return gpu::make_nccl_peers(ranks, stream);
#else
    static_cast<void>(way);
#endif
    return gpu::make_cuda_peers(ranks, stream);
}

Floats wave(std::size_t size, int seed) {
    Floats values(size);
    for (std::size_t i = 0; i < size; ++i)
        values[i] = std::sin(static_cast<float>(i + 100 * static_cast<std::size_t>(seed)));
    return values;
}

State trained(Worker& worker, std::size_t size, int rank) {
    for (int round = 0; round < 5; ++round) {
        for (int step = 0; step < 1 + (round + rank) % 3; ++step)
            worker.step(wave(size, 10 * round + step + 100 * rank), 0.01);
        worker.round();
    }
    return worker.state();
}

void equals_the_host(Way way, Inner inner, Momentum momentum, int workers, std::size_t size) {
    Settings settings;
    settings.inner = inner;
    settings.momentum = momentum;
    settings.law = Law::two_peers;
    settings.alpha = 0.75;
    settings.eta = 0.7;
    distributed::run_peers(workers, [&](Peers& ranks) {
        Worker host(settings, wave(size, 0), ranks);
        const State right = trained(host, size, ranks.rank());
        const gpu::CudaStream stream({.device = way == Way::nccl ? ranks.rank() : 0,
                                      .stream = nullptr,
                                      .graphs = way == Way::graphs});
        const auto peers = peers_of(way, ranks, stream);
        Worker device(settings, first_state(settings, wave(size, 0)), *peers, make_cuda_backend(stream));
        EXPECT_TRUE(trained(device, size, ranks.rank()) == right)
            << name(inner) << ", " << name(momentum) << ", " << size;
    });
}

class Cuda : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, Cuda, testing::Values(Way::launches, Way::graphs, Way::nccl), name_of);

TEST_P(Cuda, AWorkerIsTheHosts) {
    if (const std::string why = unavailable(GetParam()); !why.empty())
        GTEST_SKIP() << why;
    for (const int workers : {1, 2, 3, 5}) {
        if (GetParam() == Way::nccl && workers > gpu::availability().devices)
            continue;
        for (const Inner inner : {Inner::sgd, Inner::adams, Inner::adamw})
            for (const Momentum momentum : {Momentum::local, Momentum::gossiped})
                for (const std::size_t size : {0U, 3U, 300'001U})
                    equals_the_host(GetParam(), inner, momentum, workers, size);
    }
}
/// A run that is small enough for tools that check every access.
TEST_P(Cuda, SmallRunIsTheHosts) {
    if (const std::string why = unavailable(GetParam()); !why.empty())
        GTEST_SKIP() << why;
    const int workers = GetParam() == Way::nccl ? std::min(3, gpu::availability().devices) : 3;
    equals_the_host(GetParam(), Inner::adamw, Momentum::local, workers, 9'003);
}

} // namespace
} // namespace truestep::gpu::gasloc

#else

TEST(Cuda, AWorkerIsTheHosts) {
    GTEST_SKIP() << truestep::gpu::availability().text;
}

#endif
