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
}

} // namespace
} // namespace truestep::verify::collectives
