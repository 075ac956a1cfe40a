// Tests averaging's reference by hand, and that a rank which shows nothing is a finding.
#include <chrono>
#include <cmath>

#include <gtest/gtest.h>

#include "averaging.hpp"

namespace truestep::properties::averaging {
namespace {

// Worked out by hand: 1 - 0.5*2 - 0.5*1 = -0.5, 1 - 0.5*0 - 0.5*(-2) = 2, 1 - 0.5*0 - 0.5*1 = 0.5; their
// mean is 2/3.
TEST(Reference, ByHand) {
    const std::vector<Gradients> gradients{{{2.0F}, {1.0F}}, {{0.0F}, {-2.0F}}, {{0.0F}, {1.0F}}};
    EXPECT_EQ(reference::averaging::after_round({1.0F}, gradients, 0.5F), Vector{2.0F / 3.0F});
}

TEST(Reference, MeansOfMinusZeroKeepTheirSign) {
    const std::vector<Gradients> gradients{{{0.0F}}, {{0.0F}}};
    EXPECT_TRUE(std::signbit(reference::averaging::after_round({-0.0F}, gradients, 0.5F).front()));
}

TEST(Properties, ARankThatShowsNothingCannotBeJudged) {
    const Implementation silent(
        "silent", [](const Case&, distributed::Communicator&, gate::ShownByRank&) {},
        gate::make_thread_group(std::chrono::seconds(5)));
    for (const gate::Property& property : properties())
        EXPECT_THROW(static_cast<void>(property.judge(silent, "local_steps=1")), std::runtime_error);
}

} // namespace
} // namespace truestep::properties::averaging
