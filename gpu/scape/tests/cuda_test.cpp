// Compares the device's backend with the host's, where there is a device.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/gpu/availability.hpp>

#if defined(TRUESTEP_WITH_CUDA)
#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/scape/buckets.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/gpu/communicators.hpp>
#include <truestep/gpu/cuda_machine.hpp>
#include <truestep/gpu/scape/cuda_backend.hpp>
#if defined(TRUESTEP_WITH_NCCL)
#include <truestep/gpu/nccl.hpp>
#endif

namespace truestep::gpu::scape {
namespace {

using distributed::Communicator;

std::vector<float> normal(std::uint64_t seed, problem::Index size) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> distribution(0.0F, 1.0F);
    std::vector<float> result;
    for (problem::Index i = 0; i < size; ++i)
        result.push_back(distribution(random));
    return result;
}

/// Five values, so that many scores equal the threshold and only the first of them are selected.
std::vector<float> tied(std::uint64_t seed, problem::Index size) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<int> distribution(-2, 2);
    std::vector<float> result;
    for (problem::Index i = 0; i < size; ++i)
        result.push_back(0.25F * static_cast<float>(distribution(random)));
    return result;
}

std::vector<std::uint32_t> bits(std::span<const float> values) {
    std::vector<std::uint32_t> result;
    for (const float value : values)
        result.push_back(std::bit_cast<std::uint32_t>(value));
    return result;
}

std::vector<std::uint64_t> bits(const distributed::Mask& mask) {
    return {mask.words(), mask.words() + mask.word_count()};
}

/// How the device's ranks exchange: through the host, on their streams, with graphs, or with a
/// device each.
enum class Way : std::uint8_t { host, streams, graphs, nccl };

std::string name(Way way) {
    switch (way) {
    case Way::host:
        return "host";
    case Way::streams:
        return "streams";
    case Way::graphs:
        return "graphs";
    case Way::nccl:
        break;
    }
    return "nccl";
}
std::ostream& operator<<(std::ostream& stream, Way way) {
    return stream << name(way);
}

std::unique_ptr<Communicator> communicator_of(Way way, Communicator& ranks, const CudaStream& stream) {
    switch (way) {
    case Way::host:
        return nullptr;
    case Way::streams:
    case Way::graphs:
        return make_cuda_communicator(ranks, stream);
    case Way::nccl:
        break;
    }
#if defined(TRUESTEP_WITH_NCCL)
    return make_nccl_communicator(ranks, stream);
#else
    return nullptr;
#endif
}

problem::Layout large_layout() {
    return problem::Layout(
        {{"embed", 300'001, false}, {"norm", 33, true}, {"gate", 1, false}, {"mlp", 70'001, false}});
}
problem::Layout small_layout() {
    return problem::Layout({{"embed", 9'001, false}, {"norm", 33, true}, {"gate", 1, false}});
}

using Draw = std::vector<float> (*)(std::uint64_t seed, problem::Index size);

/// Settings that change what is exchanged, and how the gradient comes.
struct Setting {
    problem::Payload payload = problem::Payload::fp32;
    problem::Groups groups{};
    bool in_parts = false;
};

void take_step(distributed::scape::Scape& optimizer, std::vector<float> first, std::span<const float> last,
               bool in_parts) {
    if (in_parts) {
        optimizer.accumulate(first);
        std::ranges::fill(first, std::numeric_limits<float>::quiet_NaN()); // it is the caller's again
        for (const auto& bucket : distributed::scape::buckets_of(optimizer.problem().layout, 400))
            optimizer.bucket(bucket, last);
    }
    optimizer.step(last, 1e-3);
}

void equals_the_host(Way way, const problem::Layout& layout, int workers, double density, double clip_norm,
                     Draw draw = normal, const Setting& setting = {}) {
    problem::HyperParameters hyper;
    hyper.clip_norm = clip_norm;
    hyper.payload = setting.payload;
    hyper.groups = setting.groups;
    const auto problem = problem::make_problem(problem::Algorithm::scape, workers, layout,
                                               problem::PartitionRule::by_shard, hyper);
    const auto ranges = problem::ranges(layout, workers, problem::PartitionRule::by_shard);
    distributed::run_ranks(workers, [&](Communicator& ranks) {
        const auto density_of_all = problem::DensitySchedule::constant(density);
        const auto w = normal(1, layout.size());
        distributed::scape::Scape host(problem, ranges, density_of_all,
                                       distributed::scape::make_host_backend(problem, w), ranks, {});
        const CudaStream stream({.device = way == Way::nccl ? ranks.rank() : 0,
                                 .stream = nullptr,
                                 .graphs = way == Way::graphs});
        const auto own = communicator_of(way, ranks, stream);
        distributed::scape::Scape device(
            problem, ranges, density_of_all,
            make_cuda_backend(problem, w, stream, own ? Exchange::device : Exchange::host),
            own ? *own : ranks, {});
        for (std::uint64_t step = 0; step < 6; ++step) {
            const auto g = draw(100 * step + static_cast<std::uint64_t>(ranks.rank()) + 2, layout.size());
            const auto first = setting.in_parts ? draw(step + 1, layout.size()) : std::vector<float>();
            take_step(host, first, g, setting.in_parts);
            take_step(device, first, g, setting.in_parts);
            EXPECT_EQ(bits(host.parameters()), bits(device.parameters()));
            EXPECT_EQ(bits(host.residual()), bits(device.residual()));
            EXPECT_EQ(bits(host.moment()), bits(device.moment()));
            EXPECT_EQ(bits(host.mask()), bits(device.mask()));
            EXPECT_EQ(host.statistics().kept, device.statistics().kept);
            EXPECT_EQ(host.statistics().gradient_norm, device.statistics().gradient_norm);
        }
        EXPECT_EQ(bits(host.coming_mask()), bits(device.coming_mask()));
    });
}

class Cuda : public testing::TestWithParam<Way> {};

/// The reason why this cannot be tested here, or empty.
std::string unavailable(Way way) {
    if (const Availability here = availability(); here.devices == 0)
        return here.text;
#if !defined(TRUESTEP_WITH_NCCL)
    if (way == Way::nccl)
        return "built without NCCL";
#else
    static_cast<void>(way);
#endif
    return {};
}

TEST_P(Cuda, BackendEqualsTheHost) {
    if (const std::string why = unavailable(GetParam()); !why.empty())
        GTEST_SKIP() << why;
    const Availability here = availability();
    for (const int workers : {1, 2, 3, 5}) {
        if (GetParam() == Way::nccl && workers > here.devices)
            continue;
        for (const double density : {0.3, 0.01})
            for (const double clip_norm : {0.0, 0.7})
                equals_the_host(GetParam(), large_layout(), workers, density, clip_norm);
    }
}
/// A run that is small enough for tools that check every access.
TEST_P(Cuda, SmallRunEqualsTheHost) {
    if (const std::string why = unavailable(GetParam()); !why.empty())
        GTEST_SKIP() << why;
    const int workers = GetParam() == Way::nccl ? std::min(3, availability().devices) : 3;
    equals_the_host(GetParam(), small_layout(), workers, 0.05, 0.7);
}

/// Both directions are rounded, and sums are made on two levels.
TEST_P(Cuda, SmallRunOfRoundedMeansInGroupsEqualsTheHost) {
    if (const std::string why = unavailable(GetParam()); !why.empty())
        GTEST_SKIP() << why;
    if (GetParam() == Way::nccl && availability().devices < 3)
        GTEST_SKIP() << "it takes three devices";
    equals_the_host(GetParam(), small_layout(), 3, 0.05, 0.0, normal,
                    {problem::Payload::bf16_both, {2, 1}, false});
}

/// Each bucket is rounded and exchanged before the step.
TEST_P(Cuda, SmallRunInBucketsEqualsTheHost) {
    if (const std::string why = unavailable(GetParam()); !why.empty())
        GTEST_SKIP() << why;
    const int workers = GetParam() == Way::nccl ? std::min(2, availability().devices) : 2;
    equals_the_host(GetParam(), small_layout(), workers, 0.05, 0.7, normal,
                    {problem::Payload::e5m2_both, {}, true});
}

/// If only some ties of the threshold are taken, a group looks for the first ones (Take).
TEST_P(Cuda, SmallRunWithTiesEqualsTheHost) {
    if (const std::string why = unavailable(GetParam()); !why.empty())
        GTEST_SKIP() << why;
    const int workers = GetParam() == Way::nccl ? std::min(2, availability().devices) : 2;
    equals_the_host(GetParam(), small_layout(), workers, 0.05, 0.7, tied);
}

/// Whole tiles lie in one segment, so the local pass looks for the coming mask in them.
TEST_P(Cuda, SmallRunAloneEqualsTheHost) {
    if (const std::string why = unavailable(GetParam()); !why.empty())
        GTEST_SKIP() << why;
    equals_the_host(GetParam(), small_layout(), 1, 0.05, 0.7);
}

#if defined(TRUESTEP_WITH_NCCL)
/// Rank 0 fails during an exchange that rank 1 will never join. Rank 1 learns of it only through
/// the host. Neither waits for the other.
TEST(CudaNccl, SmallRunThatFailsInTheMiddleOfAnExchangeEnds) {
    if (availability().devices < 2)
        GTEST_SKIP() << "it takes two devices";
    const auto begin = std::chrono::steady_clock::now();
    constexpr std::chrono::seconds patience{20};
    const auto run = [&](Communicator& ranks) {
        const CudaStream stream({.device = ranks.rank(), .stream = nullptr, .graphs = false});
        CudaMachine machine(stream, Exchange::device);
        CudaMachine::Vector<float> part;
        CudaMachine::Vector<float> all;
        machine.resize(part, 1);
        machine.resize(all, 2);
        machine.fill(part, 0);
        const auto own = make_nccl_communicator(ranks, stream, {.timeout = patience});
        for (; ranks.rank() == 1; std::this_thread::sleep_for(std::chrono::milliseconds{1}))
            own->progress(); // until it throws
        const std::vector<std::size_t> sizes(2, sizeof(float));
        const auto exchange =
            own->start_all_gather(distributed::Traffic::moment, part.data(), all.data(), sizes);
        throw std::runtime_error("rank 0 has had enough");
    };
    try {
        distributed::run_ranks(2, run);
        FAIL() << "nobody has failed";
    } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "rank 0 has had enough");
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, patience / 2);
}
#endif

std::string name_of(const testing::TestParamInfo<Way>& info) {
    return name(info.param);
}
INSTANTIATE_TEST_SUITE_P(Ways, Cuda, testing::Values(Way::host, Way::streams, Way::graphs, Way::nccl),
                         name_of);

} // namespace
} // namespace truestep::gpu::scape

#else

TEST(Cuda, BackendEqualsTheHost) {
    GTEST_SKIP() << truestep::gpu::availability().text;
}

#endif
