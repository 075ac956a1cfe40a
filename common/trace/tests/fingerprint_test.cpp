// Tests that a fingerprint shows any changed bit and any swap, and that parts add up.
#include <truestep/trace/fingerprint.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace truestep::trace {
namespace {

std::uint64_t of(const std::vector<float>& values, std::uint64_t begin = 0) {
    return fingerprint(std::span(values), begin);
}
std::uint64_t of_bytes(const std::vector<std::uint8_t>& bytes, std::uint64_t begin = 0) {
    return fingerprint(std::span(bytes), begin);
}

/// Values of both signs, all different.
std::vector<float> some_values(std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = (i % 2 == 0 ? 1.0F : -1.0F) * (0.5F + static_cast<float>(i));
    return values;
}

// The expected numbers come from Python's whole numbers, modulo 2^64.

TEST(Mix64, IsTheFinalizerOfSplitMix64) {
    EXPECT_EQ(mix64(0), 0U);
    EXPECT_EQ(mix64(1), 0x5692161d100b05e5U);
    EXPECT_EQ(mix64(2), 0xdbd238973a2b148aU);
    EXPECT_EQ(mix64(std::numeric_limits<std::uint64_t>::max()), 0xb4d055fcf2cbbd7bU);
}

TEST(Fingerprint, ValuesByHand) {
    EXPECT_EQ(of({1.0F}), 0x2a5cf130132ea644U) << "the bits are 0x3f800000, and mix64(0) is 0";
    EXPECT_EQ(of({1.0F}), mix64(0x3f800000U));
    EXPECT_EQ(of({1.0F}, 7), 0x1f502964056baadbU);
    EXPECT_EQ(of({0.0F, 0.0F}), 0x7ab40e090f363a7dU);
    EXPECT_EQ(of({0.0F, 0.0F}), mix64(mix64(1)));
    EXPECT_EQ(of({1.0F, 2.0F, 3.0F}), 0x376c94ff622abd95U);
    EXPECT_EQ(of_bytes({0x81, 1, 2}), 0x093024295c8bbd38U);
}

TEST(Fingerprint, NothingIsZero) {
    EXPECT_EQ(of({}), 0U);
    EXPECT_EQ(of({}, 12), 0U);
    EXPECT_EQ(of_bytes({}), 0U);
}

TEST(Fingerprint, TheSignOfZeroShows) {
    EXPECT_EQ(of({-0.0F}), 0xec105bf588587c9fU);
    EXPECT_NE(of({0.0F}), of({-0.0F}));
}

TEST(Fingerprint, ThePayloadOfANanShows) {
    EXPECT_NE(of({std::bit_cast<float>(0x7fc00000U)}), of({std::bit_cast<float>(0x7fc00001U)}));
    EXPECT_EQ(of({std::bit_cast<float>(0x7fc00001U)}), mix64(0x7fc00001U));
}

TEST(Fingerprint, PartsAddUpInAnyOrder) {
    const std::vector<float> values = some_values(101);
    const std::span<const float> all(values);
    const std::uint64_t whole = fingerprint(all);
    for (std::size_t cut = 0; cut <= values.size(); ++cut)
        EXPECT_EQ(fingerprint(all.subspan(cut), cut) + fingerprint(all.first(cut)), whole) << cut;
    std::uint64_t sum = 0;
    for (std::size_t i = values.size(); i-- > 0;)
        sum += fingerprint(all.subspan(i, 1), i);
    EXPECT_EQ(sum, whole);
}

TEST(Fingerprint, TheIndexIsNotCutAt32Bits) {
    EXPECT_NE(of({1.0F}, 3), of({1.0F}, (std::uint64_t{1} << 32U) + 3));
}

TEST(Fingerprint, TwoValuesThatChangePlacesShow) {
    const std::vector<float> values = some_values(40);
    for (std::size_t i = 0; i < values.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
            std::vector<float> other = values;
            std::swap(other[i], other[j]);
            EXPECT_NE(of(other), of(values)) << i << " and " << j;
        }
}

TEST(Fingerprint, EverySingleBitShowsAndNoTwoTheSame) {
    std::vector<float> values = some_values(40);
    std::set<std::uint64_t> seen{of(values)};
    for (float& value : values)
        for (unsigned bit = 0; bit < 32; ++bit) {
            const float good = value;
            value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(good) ^ (1U << bit));
            EXPECT_TRUE(seen.insert(of(values)).second) << bit;
            value = good;
        }
    std::vector<std::uint8_t> mask(11, 0x5a);
    seen = {of_bytes(mask)};
    for (std::uint8_t& byte : mask)
        for (unsigned bit = 0; bit < 8; ++bit) {
            const std::uint8_t good = byte;
            byte = static_cast<std::uint8_t>(good ^ (1U << bit));
            EXPECT_TRUE(seen.insert(of_bytes(mask)).second) << bit;
            byte = good;
        }
}

TEST(Fingerprint, ACountOfZerosShows) {
    EXPECT_NE(of(std::vector<float>(40)), of(std::vector<float>(41)));
}

} // namespace
} // namespace truestep::trace
