// Tests when too large a need of memory or disk is refused, and the figures in the message.
#include <truestep/problem/memory_limits.hpp>

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

namespace truestep::problem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(MemoryLimits, BytesAreToldInTheUnitThatFits) {
    EXPECT_EQ(bytes_text(0.0), "0 B");
    EXPECT_EQ(bytes_text(999.0), "999 B");
    EXPECT_EQ(bytes_text(1000.0), "1.0 kB");
    EXPECT_EQ(bytes_text(16e12), "16.0 TB");
    EXPECT_EQ(bytes_text(5e21), "5000.0 EB");
}

TEST(MemoryLimits, WhatFitsIsNotRefused) {
    EXPECT_GT(memory_of_this_machine(), 1e6);
    EXPECT_NO_THROW(check_memory(0.5 * memory_of_this_machine(), "the run"));
    EXPECT_NO_THROW(check_disk(1.0, std::filesystem::temp_directory_path() / "file"));
}

TEST(MemoryLimits, WhatDoesNotIsRefusedWithBothFigures) {
    EXPECT_THAT([] { check_memory(1e18, "the run"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("the run takes at least 1.0 EB of memory"),
                                           HasSubstr(bytes_text(memory_of_this_machine())))));
    EXPECT_THAT([] { check_disk(1e20, std::filesystem::temp_directory_path() / "file"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("100.0 EB"), HasSubstr("free in "))));
}

// Opening a file reports that it cannot be written; this check does not.
TEST(MemoryLimits, OfAFolderThatIsNotThereNothingIsSaid) {
    EXPECT_NO_THROW(check_disk(1e20, "/no/such/folder/file"));
}

} // namespace
} // namespace truestep::problem
