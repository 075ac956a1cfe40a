// Tests numbers as text and back, and the mixing of bits that ranks and stages have in common.
#include <truestep/problem/text.hpp>

#include <limits>

#include <gtest/gtest.h>

#include <truestep/problem/mix64.hpp>

namespace truestep::problem {
namespace {

TEST(TextTest, TheShortestDecimalReadsBack) {
    EXPECT_EQ(shortest(0.1F), "0.1");
    EXPECT_EQ(shortest(0.1), "0.1");
    EXPECT_EQ(shortest(static_cast<double>(0.1F)), "0.10000000149011612");
    EXPECT_EQ(shortest(-0.0F), "-0");
    for (const double value : {1.0 / 3.0, 1e300, std::numeric_limits<double>::denorm_min()})
        EXPECT_EQ(parse_number<double>(shortest(value)), value);
}

TEST(TextTest, ANumberIsTheWholeText) {
    EXPECT_EQ(parse_number<int>("-12"), -12);
    EXPECT_EQ(parse_number<int>("ff", 16), 255);
    EXPECT_EQ(parse_numbers<int>("3,1,2"), (std::vector{3, 1, 2}));
    for (const char* const wrong : {"", " 1", "1 ", "1x", "0x1", "99999999999"})
        EXPECT_EQ(parse_number<int>(wrong), std::nullopt) << wrong;
    for (const char* const wrong : {"", "1,", ",1", "1,,2"})
        EXPECT_EQ(parse_numbers<int>(wrong), std::nullopt) << wrong;
}

TEST(TextTest, ControlCharactersLeaveMessages) {
    EXPECT_EQ(one_line("a\nb\x1b[31m\x7f"), "a b [31m ");
}

// The first numbers that SplitMix64 is known to draw from the seed 1234567.
TEST(TextTest, Mix64IsTheFinalizerOfSplitMix64) {
    std::uint64_t state = 1234567;
    for (const std::uint64_t drawn : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U}) {
        state += 0x9e37'79b9'7f4a'7c15U;
        EXPECT_EQ(mix64(state), drawn);
    }
}

} // namespace
} // namespace truestep::problem
