// Tests the bytes that the safetensors writer makes, full disks, and calls in a wrong order.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "safetensors_support.hpp"

namespace truestep::storage {
namespace {

// ---- The writer

TEST_F(SafetensorsTest, WritesTheseBytes) {
    SafetensorsWriter writer(path_, {{"z", "\"1\""}, {"a", "é"}});
    writer.declare("w/2", DataType::f32, {2, 1});
    writer.declare("b", DataType::u8, {});
    writer.write_f32("w/2", std::vector{1.0F, -0.0F});
    writer.write_u8("b", std::vector<std::uint8_t>{7});
    writer.finish();
    std::string header = R"({"__metadata__":{"a":"é","z":"\"1\""},)"
                         R"("w/2":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                         R"("b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    using namespace std::string_literals;
    EXPECT_EQ(load(path_), file_bytes(header, "\0\0\x80\x3f\0\0\0\x80\x07"s));
    EXPECT_FALSE(std::filesystem::exists(partial_path()));
}

TEST_F(SafetensorsTest, AnyNameComesBack) {
    const std::vector<std::string> names{"",     "\"", "\\", "\n\t",        std::string(1, '\0'),
                                         "\x7f", "ĝ",  "𝄞",  "__metadata_", std::string(100'000, 'n')};
    SafetensorsWriter writer(path_, {});
    for (const std::string& name : names) {
        writer.declare(name, DataType::u8, {1});
    }
    for (const std::string& name : names) {
        writer.write_u8(name, std::vector<std::uint8_t>{1});
    }
    writer.finish();
    const SafetensorsFile file(path_);
    ASSERT_EQ(file.tensors().size(), names.size());
    for (std::size_t index = 0; index < names.size(); ++index) {
        EXPECT_EQ(file.tensors()[index].name, names[index]);
        EXPECT_EQ(file.find(names[index]), &file.tensors()[index]);
    }
}

TEST_F(SafetensorsTest, WriterInAMissingFolder) {
    path_ = folder_ / "missing" / "file";
    expect_failure(0, "cannot be created: No such file", [&] { SafetensorsWriter(path_, {}); });
}

TEST_F(SafetensorsTest, WriterUnderAFile) {
    store(path_, "");
    expect_failure(0, "cannot be created: Not a directory", [&] { SafetensorsWriter(path_ / "file", {}); });
}

TEST_F(SafetensorsTest, WriterInAReadOnlyFolder) {
    if (geteuid() == 0) {
        GTEST_SKIP() << "root writes to every folder";
    }
    std::filesystem::permissions(folder_,
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    expect_failure(0, "cannot be created: Permission denied", [&] { SafetensorsWriter(path_, {}); });
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
}

TEST_F(SafetensorsTest, WriterOverAFolder) {
    SafetensorsWriter writer(path_, {});
    std::filesystem::create_directories(path_ / "content");
    expect_failure(0, "cannot be created: Is a directory", [&] { SafetensorsWriter(path_, {}); });
    expect_failure(0, "cannot be replaced by the finished partial file", [&] { writer.finish(); });
}

TEST_F(SafetensorsTest, FullDiskShowsAtTheFirstWrite) {
    if (!std::filesystem::exists("/dev/full")) {
        GTEST_SKIP() << "this system has no /dev/full";
    }
    std::filesystem::create_symlink("/dev/full", partial_path());
    SafetensorsWriter writer(path_, {});
    writer.declare("a", DataType::u8, {1});
    expect_failure(0, "cannot be written: No space left on device",
                   [&] { writer.write_u8("a", std::vector<std::uint8_t>{1}); });
    expect_failure(0, "the file is closed", [&] { writer.finish(); });
    EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SafetensorsTest, WhatCannotBeSyncedIsNotRenamed) {
    if (!std::filesystem::exists("/dev/null")) {
        GTEST_SKIP() << "this system has no /dev/null";
    }
    std::filesystem::create_symlink("/dev/null", partial_path()); // which takes all and can sync nothing
    SafetensorsWriter writer(path_, {});
    writer.declare("a", DataType::u8, {1});
    writer.write_u8("a", std::vector<std::uint8_t>{1});
    expect_failure(65, "cannot be written: Invalid argument", [&] { writer.finish(); });
    expect_failure(65, "the file is closed", [&] { writer.finish(); });
    EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SafetensorsTest, FullDiskStopsAWrite) {
    if (!std::filesystem::exists("/dev/full")) {
        GTEST_SKIP() << "this system has no /dev/full";
    }
    std::filesystem::create_symlink("/dev/full", partial_path());
    {
        SafetensorsWriter writer(path_, {});
        const std::vector<std::uint8_t> values(1'000'000);
        writer.declare("a", DataType::u8, {values.size()});
        const Failure failure = failure_of([&] { writer.write_u8("a", values); });
        EXPECT_NE(failure.text.find("cannot be written: No space left on device"), std::string::npos);
        expect_failure(failure.offset, "the file is closed", [&] { writer.write_u8("a", values); });
        expect_failure(failure.offset, "the file is closed", [&] { writer.finish(); });
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
    EXPECT_FALSE(std::filesystem::is_symlink(partial_path()));
}

class WriterMisuse : public SafetensorsTest {
  protected:
    WriterMisuse() {
        writer_.declare("a", DataType::u8, {2});
        writer_.declare("b", DataType::f32, {1});
    }

    // The header is {"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b": and so on.
    static constexpr std::uint64_t offset_a = 9;
    static constexpr std::uint64_t offset_b = 61;
    static constexpr std::uint64_t offset_next = 114;
    const std::vector<std::uint8_t> two_{1, 2};
    SafetensorsWriter writer_{path_, {}};
};

TEST_F(WriterMisuse, WrongOrder) {
    expect_failure(offset_a, "tensor \"b\" is written out of order; expected tensor \"a\"",
                   [&] { writer_.write_f32("b", std::vector{1.0F}); });
}

TEST_F(WriterMisuse, WrongDataType) {
    expect_failure(offset_a, "tensor \"a\" is written as F64; expected U8",
                   [&] { writer_.write_f64("a", std::vector{1.0}); });
}

TEST_F(WriterMisuse, WrongSize) {
    expect_failure(offset_a, "tensor \"a\" is written with 1 bytes; expected 2 bytes",
                   [&] { writer_.write_u8("a", std::span(two_).first(1)); });
    expect_failure(offset_a, "tensor \"a\" is written with 0 bytes", [&] { writer_.write_u8("a", {}); });
}

TEST_F(WriterMisuse, UndeclaredTensor) {
    writer_.write_u8("a", two_);
    expect_failure(offset_b, "tensor \"c\" is written out of order", [&] { writer_.write_u8("c", two_); });
    writer_.write_f32("b", std::vector{1.0F});
    expect_failure(126, "tensor \"c\" is written after the last declared tensor",
                   [&] { writer_.write_u8("c", two_); });
}

TEST_F(WriterMisuse, MissingTensor) {
    writer_.write_u8("a", two_);
    expect_failure(122, "tensor \"b\" was not written", [&] { writer_.finish(); });
}

TEST_F(WriterMisuse, MistakesCanBeMended) {
    failure_of([&] { writer_.finish(); });
    failure_of([&] { writer_.write_u8("b", two_); });
    writer_.write_u8("a", two_);
    writer_.write_f32("b", std::vector{1.0F});
    writer_.finish();
    EXPECT_EQ(SafetensorsFile(path_).read_u8("a"), two_);
}

TEST_F(WriterMisuse, DeclaredTooLate) {
    writer_.write_u8("a", two_);
    expect_failure(122, "tensor \"c\" is declared after the header was written",
                   [&] { writer_.declare("c", DataType::u8, {1}); });
}

TEST_F(WriterMisuse, DeclaredTwice) {
    expect_failure(offset_next, "tensor \"a\" is declared twice",
                   [&] { writer_.declare("a", DataType::f32, {1}); });
}

TEST_F(WriterMisuse, NameOfTheMetadata) {
    expect_failure(offset_next, "has the name of the metadata",
                   [&] { writer_.declare("__metadata__", DataType::u8, {1}); });
}

TEST_F(WriterMisuse, SizesThatOverflow) {
    const std::uint64_t half = std::uint64_t{1} << 62U;
    expect_failure(offset_next, "makes the size of the file overflow",
                   [&] { writer_.declare("c", DataType::f32, {half}); });
    writer_.declare("c", DataType::u8, {half});
    const Failure failure = failure_of([&] { writer_.declare("d", DataType::u8, {half}); });
    EXPECT_NE(failure.text.find("makes the size of the file overflow"), std::string::npos);
}

TEST_F(WriterMisuse, TextThatIsNotUtf8) {
    expect_failure(offset_next, "not valid UTF-8", [&] { writer_.declare("\xff", DataType::u8, {1}); });
    path_ = folder_ / "other";
    expect_failure(8, "not valid UTF-8", [&] { SafetensorsWriter(path_, {{"key", "\xff"}}); });
    EXPECT_FALSE(std::filesystem::exists(partial_path()));
}

TEST_F(WriterMisuse, CallsAfterFinish) {
    writer_.write_u8("a", two_);
    writer_.write_f32("b", std::vector{1.0F});
    writer_.finish();
    expect_failure(126, "the file is closed", [&] { writer_.finish(); });
    expect_failure(126, "the file is closed", [&] { writer_.write_u8("a", two_); });
    expect_failure(126, "declared after", [&] { writer_.declare("c", DataType::u8, {1}); });
}

TEST_F(SafetensorsTest, HeaderTooLongToWrite) {
    SafetensorsWriter writer(path_, {{"key", std::string(100'000'000, 'x')}});
    expect_failure(0, "expected at most 100000000 bytes", [&] { writer.finish(); });
}

} // namespace
} // namespace truestep::storage
