// Tests the disk itself; the readers' and writers' tests replace it by other file systems.
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <truestep/storage/files.hpp>

#include "safetensors_support.hpp"

namespace truestep::storage {
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

TEST(Disk, WhatIsCreatedAnewHasNothingOfWhatWasThere) {
    const auto path = std::filesystem::path(testing::TempDir()) / "disk_test.anew";
    std::ofstream(path) << "a longer one";
    std::error_code error;
    const auto file = disk().create(path, error);
    ASSERT_TRUE(file) << error.message();
    EXPECT_EQ(file->write(std::as_bytes(std::span("new", 3)), error), 3U);
    EXPECT_FALSE(file->close());
    EXPECT_EQ(std::filesystem::file_size(path), 3U);
    std::filesystem::remove(path);
}

TEST(Disk, AnAbandonedFolderGoesAndALivingOneStays) {
    const auto parent = std::filesystem::path(testing::TempDir()) / "disk_test_scratch";
    std::filesystem::create_directories(parent / "mine-abandoned" / "content");
    std::filesystem::create_directories(parent / "others-abandoned");
    std::ofstream(parent / "mine-file") << "no folder";
    const std::string living = make_scratch_folder(parent, "mine");
    ASSERT_NE(living, "");
    remove_abandoned_folders(parent, "mine");
    EXPECT_TRUE(std::filesystem::exists(living));
    EXPECT_FALSE(std::filesystem::exists(parent / "mine-abandoned"));
    EXPECT_TRUE(std::filesystem::exists(parent / "others-abandoned"));
    EXPECT_TRUE(std::filesystem::exists(parent / "mine-file"));
    EXPECT_EQ(make_scratch_folder(parent / "missing", "mine"), "");
    std::filesystem::remove_all(parent);
}

TEST_F(SafetensorsTest, APipeIsWrittenInPlace) {
    const std::string bytes = small_file(folder_ / "plain");
    ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
    const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK);
    ASSERT_GE(reader, 0);
    write_small_file(path_); // which fits into the pipe
    std::string found(bytes.size() + 1, '\0');
    EXPECT_EQ(read(reader, found.data(), found.size()), static_cast<ssize_t>(bytes.size()));
    found.pop_back();
    EXPECT_EQ(found, bytes);
    close(reader);
    EXPECT_TRUE(std::filesystem::is_fifo(path_));
}

// Makes a device for the test: a bug would remove the one in /dev for everyone.
TEST_F(SafetensorsTest, ADeviceIsWrittenInPlace) {
    if (mknod(path_.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0 || access(path_.c_str(), W_OK) != 0 ||
        std::ofstream(path_).fail()) {
        GTEST_SKIP() << "no device can be made here: " << std::strerror(errno);
    }
    write_small_file(path_);
    EXPECT_TRUE(std::filesystem::is_character_file(path_));
    { const SafetensorsWriter unfinished(path_, {}); }
    EXPECT_TRUE(std::filesystem::is_character_file(path_));
}

TEST_F(SafetensorsTest, WhatIsOpenIsWrittenInPlace) {
    const std::string bytes = small_file(path_);
    const int file = open((folder_ / "gone").c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_GE(file, 0);
    std::filesystem::remove(folder_ / "gone"); // it has no name to be renamed to
    write_small_file("/dev/fd/" + std::to_string(file));
    EXPECT_EQ(load("/proc/self/fd/" + std::to_string(file)), bytes);
    close(file);
}

} // namespace
} // namespace truestep::storage
