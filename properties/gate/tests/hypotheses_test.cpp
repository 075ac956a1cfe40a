// Tests which known bugs are tried as explanations, and what is said where several explain as well.
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

TEST(Hypotheses, SeveralThatExplainAsWellSaySo) {
    const auto run = [](int number) -> std::optional<SeenBits> {
        return SeenBits{{number == 0 ? 0U : 7U, number == 3 ? 8U : 9U}};
    };
    const std::vector<KnownBug> known_bugs{{1, "a", "shows"}, {2, "b", "shows"}, {3, "c", "shows"}};
    const auto lines = what_fits({known_bugs, 1, {{7U, 9U}}, run});
    ASSERT_EQ(lines.size(), 2U);
    for (const std::string& line : lines)
        EXPECT_NE(line.find("; 1 other explains as many"), std::string::npos) << line;
}

} // namespace
} // namespace truestep::gate
