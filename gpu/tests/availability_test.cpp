// Tests that devices are reported in one line, and that a stream without a device is an error.
#include <truestep/gpu/availability.hpp>

#include <gtest/gtest.h>

#if defined(TRUESTEP_WITH_CUDA)
#include <truestep/gpu/cuda_stream.hpp>
#include <truestep/problem/error.hpp>
#endif

namespace truestep::gpu {
namespace {

TEST(Availability, SaysWhatThereIsInOneLine) {
    const Availability here = availability();
    EXPECT_FALSE(here.text.empty());
    EXPECT_EQ(here.text.find('\n'), std::string::npos);
    EXPECT_EQ(here.devices == 0, here.text.starts_with("no GPU")) << here.text;
}

#if defined(TRUESTEP_WITH_CUDA)
TEST(Availability, WithoutADeviceThereIsNoStreamAndTheErrorSaysWhy) {
    const Availability here = availability();
    if (here.devices > 0)
        GTEST_SKIP() << "there is a device: " << here.text;
    try {
        static_cast<void>(CudaStream());
        FAIL() << "a stream without a device";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(here.text), std::string::npos);
    }
}
#endif

} // namespace
} // namespace truestep::gpu
