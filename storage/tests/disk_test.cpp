// What the disk itself says: the readers' and writers' tests put file systems of their own in its place.
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include <gtest/gtest.h>

#include <scape/storage/files.hpp>

namespace scape::storage {
namespace {

TEST(Disk, AReadThatFailsSaysWhy) {
    std::error_code error;
    const auto folder = disk().open(std::filesystem::temp_directory_path(), error);
    if (!folder)
        GTEST_SKIP() << "this system does not open folders to be read";
    std::array<std::byte, 8> bytes{};
    EXPECT_EQ(folder->read(0, bytes, error), 0U);
    EXPECT_EQ(error, std::errc::is_a_directory);
}

TEST(Disk, AReadThatSucceedsSaysNothingOfWhatWasBefore) {
    const auto path = std::filesystem::path(testing::TempDir()) / "disk_test.bytes";
    std::ofstream(path) << "abc";
    std::error_code error;
    const auto file = disk().open(path, error);
    ASSERT_TRUE(file) << error.message();
    error = std::make_error_code(std::errc::io_error);
    std::array<std::byte, 8> bytes{};
    EXPECT_EQ(file->read(1, bytes, error), 2U);
    EXPECT_FALSE(error);
    std::filesystem::remove(path);
}

} // namespace
} // namespace scape::storage
