// Files that ranks wrote, what is refused in them, and what is found when they are joined.
#include <truestep/verify/collectives/check.hpp>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

namespace truestep::verify::collectives {
namespace {

TEST(Recording, SampledIndicesAreThoseOfPython) {
    EXPECT_EQ(sampled_indices(10, 1, 3), (std::vector<Index>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    EXPECT_EQ(sampled_indices(6400, 1000, 7).size(), 64U);
    EXPECT_EQ(sampled_indices(6400, 100, 7)[4], 456);
    EXPECT_EQ(sampled_indices(2000, 5, 0)[1], 6);
}

} // namespace
} // namespace truestep::verify::collectives
