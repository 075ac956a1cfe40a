// The device's backend beside the host's, where there is a device.
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <scape/gpu/availability.hpp>

#if defined(SCAPE_WITH_CUDA)
#include <scape/distributed/host_backend.hpp>
#include <scape/distributed/in_process.hpp>
#include <scape/distributed/scape.hpp>
#include <scape/gpu/cuda_backend.hpp>

namespace scape::gpu {
namespace {

std::vector<float> normal(std::uint64_t seed, problem::Index size) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> distribution(0.0F, 1.0F);
    std::vector<float> result;
    for (problem::Index i = 0; i < size; ++i)
        result.push_back(distribution(random));
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

TEST(Cuda, BackendEqualsTheHost) {
    if (const Availability here = availability(); here.devices == 0)
        GTEST_SKIP() << here.text;
    for (const int workers : {1, 2, 3, 5})
        for (const double density : {0.3, 0.01})
            for (const double clip_norm : {0.0, 0.7}) {
                problem::HyperParameters hyper;
                hyper.clip_norm = clip_norm;
                const problem::Layout layout({{"embed", 300'001, false},
                                              {"norm", 33, true},
                                              {"gate", 1, false},
                                              {"mlp", 70'001, false}});
                const auto problem = problem::make_problem(problem::Algorithm::scape, workers, layout,
                                                           problem::PartitionRule::by_shard, hyper);
                const auto ranges = problem::ranges(layout, workers, problem::PartitionRule::by_shard);
                distributed::run_ranks(workers, [&](distributed::Communicator& communicator) {
                    const auto density_of_all = problem::DensitySchedule::constant(density);
                    const auto w = normal(1, layout.size());
                    distributed::Scape host(problem, ranges, density_of_all,
                                            distributed::make_host_backend(problem, w), communicator, {});
                    distributed::Scape device(problem, ranges, density_of_all,
                                              make_cuda_backend(problem, w, CudaStream()), communicator,
                                              {});
                    for (int step = 0; step < 6; ++step) {
                        const auto g =
                            normal(static_cast<std::uint64_t>(100 * step + communicator.rank() + 2),
                                   layout.size());
                        host.step(g, 1e-3);
                        device.step(g, 1e-3);
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
}

} // namespace
} // namespace scape::gpu

#else

TEST(Cuda, BackendEqualsTheHost) {
    GTEST_SKIP() << scape::gpu::availability().text;
}

#endif
