// Compares the ends of a boundary on a device with the host's, where there is a device.
#include <string>

#include <gtest/gtest.h>

#include <truestep/gpu/availability.hpp>

#include "ends.hpp"

namespace truestep::gpu::mapl {
namespace {

#if defined(TRUESTEP_WITH_CUBLAS)

using distributed::Peers;

class MaplCuda : public testing::TestWithParam<bool> {
  protected:
    void SetUp() override {
        if (const gpu::Availability here = gpu::availability(); here.devices == 0)
            GTEST_SKIP() << here.text;
    }
    Builds device = [](Peers& ranks) -> EndResources {
        const gpu::CudaStream stream({.device = 0, .stream = nullptr, .graphs = GetParam()});
        return {make_cuda_peers(ranks, stream), make_cuda_backend(stream)};
    };
};
std::string launches_or_graphs(const testing::TestParamInfo<bool>& info) {
    return info.param ? "graphs" : "launches";
}
INSTANTIATE_TEST_SUITE_P(Ways, MaplCuda, testing::Bool(), launches_or_graphs);

/// One: of more, A's iteration multiplies what the products round otherwise, as EachStepAlone shows, and
/// the gate has bounds for that.
TEST_P(MaplCuda, OneStepIsTheHosts) {
    for (const Settings& settings : kinds(96, 24))
        if (settings.payload == Payload::fp32 && !quantizes(settings))
            near(played(settings, on_host, 300, 1), played(settings, device, 300, 1));
}

TEST_P(MaplCuda, EachStepAloneIsTheHosts) {
    for (const Settings& settings : kinds(96, 24))
        if (settings.payload == Payload::fp32 && !quantizes(settings))
            each_step_alone(settings, device, 300);
}

TEST_P(MaplCuda, TheSameBitsAgain) {
    for (const Settings& settings : kinds(96, 24))
        EXPECT_TRUE(played(settings, device, 300, 3) == played(settings, device, 300, 3))
            << name(settings.anchors) << " " << name(settings.payload);
}

/// A run that is small enough for tools that check every access.
TEST_P(MaplCuda, SmallRunIsTheHosts) {
    for (const Settings& settings : kinds(7, 3)) {
        const StepResults shown = played(settings, device, 5, 1);
        if (settings.payload == Payload::fp32 && !quantizes(settings))
            near(played(settings, on_host, 5, 1), shown);
    }
}

#else

TEST(MaplCuda, OneStepIsTheHosts) {
    GTEST_SKIP() << "built without cuBLAS; " << gpu::availability().text;
}

#endif

} // namespace
} // namespace truestep::gpu::mapl
