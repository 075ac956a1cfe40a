// Tests memory for passes: its alignment at any size, and a vector in it.
#include <truestep/distributed/aligned.hpp>

#include <cstdint>
#include <numeric>

#include <gtest/gtest.h>

namespace truestep::distributed {
namespace {

TEST(Aligned, NoRegisterCrossesALineAtAnySize) {
    for (const std::size_t size : {0U, 1U, 15U, 16U, 1000U, (1U << 19U) - 1, 1U << 19U, (1U << 20U) + 3}) {
        AlignedFloats values(size, 0.5F);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(values.data()) % 64, 0U) << size;
        std::iota(values.begin(), values.end(), 0.0F);
        AlignedFloats other = values;
        EXPECT_EQ(other, values);
        other.push_back(1.0F);
        values.swap(other);
        EXPECT_EQ(values.size(), size + 1);
    }
}

} // namespace
} // namespace truestep::distributed
