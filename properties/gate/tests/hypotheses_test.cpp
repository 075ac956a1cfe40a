// Tests that known bugs of device code alone are not tried as explanations.
#include <truestep/gate/hypotheses.hpp>

#include <gtest/gtest.h>

namespace truestep::gate {
namespace {

TEST(Hypotheses, ThoseOfCodeForDevicesAloneAreNotTried) {
    std::vector<int> tried;
    const auto run = [&](int number) -> std::optional<SeenBits> {
        tried.push_back(number);
        return SeenBits{{number == 0 ? 0U : 7U}};
    };
    const std::vector<KnownBug> known_bugs{{1, "of devices", "shows", true}, {2, "of hosts", "shows"}};
    const auto lines = what_fits({known_bugs, 1, {{7U}}, run});
    EXPECT_EQ(tried, (std::vector{0, 2}));
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_NE(lines.front().find("2: of hosts"), std::string::npos) << lines.front();
}

} // namespace
} // namespace truestep::gate
