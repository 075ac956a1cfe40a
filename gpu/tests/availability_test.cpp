#include <scape/gpu/availability.hpp>

#include <gtest/gtest.h>

#if defined(SCAPE_WITH_CUDA)
#include <scape/gpu/cuda_backend.hpp>
#include <scape/problem/error.hpp>
#endif

namespace scape::gpu {
namespace {

TEST(Availability, SaysWhatThereIsInOneLine) {
    const Availability here = availability();
    EXPECT_FALSE(here.text.empty());
    EXPECT_EQ(here.text.find('\n'), std::string::npos);
    EXPECT_EQ(here.devices == 0, here.text.starts_with("no GPU")) << here.text;
}

#if defined(SCAPE_WITH_CUDA)
TEST(Availability, WithoutADeviceThereIsNoBackendAndTheErrorSaysWhy) {
    const Availability here = availability();
    if (here.devices > 0)
        GTEST_SKIP() << "there is a device: " << here.text;
    const problem::Problem problem =
        problem::make_problem(problem::Algorithm::scape, 1, problem::Layout({{"all", 5, false}}),
                              problem::PartitionRule::by_shard, {});
    const std::vector<float> w(5, 0.0F);
    try {
        static_cast<void>(make_cuda_backend(problem, w, CudaStream()));
        FAIL() << "a backend without a device";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(here.text), std::string::npos);
    }
}
#endif

} // namespace
} // namespace scape::gpu
