// Tests the bytes that the safetensors writer makes, full disks, and calls in a wrong order.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <random>
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

TEST_F(SafetensorsTest, TheSameCallsWriteTheSameBytes) {
    const std::string bytes = small_file(path_);
    EXPECT_EQ(small_file(folder_ / "again"), bytes);
}

TEST_F(SafetensorsTest, ReadsWhatWasWritten) {
    small_file(path_);
    const SafetensorsFile file(path_);
    EXPECT_EQ(file.data_offset() % 8, 0U);
    EXPECT_EQ(file.metadata(), (Metadata{{"key", "value"}, {"é\n", ""}}));
    ASSERT_EQ(file.tensors().size(), 4U);
    EXPECT_EQ(file.tensors()[1].name, "matrix");
    EXPECT_EQ(file.tensors()[1].shape, (Shape{2, 3}));
    EXPECT_EQ(file.tensors()[2].name, "empty");
    EXPECT_EQ(file.read_f64("scalar"), std::vector{0.5});
    EXPECT_EQ(file.read_f32("matrix"), (std::vector{1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}));
    EXPECT_TRUE(file.read_f32("empty").empty());
    EXPECT_EQ(file.read_u8("flags"), (std::vector<std::uint8_t>{1, 0, 1}));
}

TEST_F(SafetensorsTest, HeaderOffsetsOfWriterAndReaderAgree) {
    const std::string bytes = small_file(path_);
    const SafetensorsFile file(path_);
    for (const TensorEntry& entry : file.tensors()) {
        EXPECT_EQ(bytes.substr(entry.header_offset, entry.name.size() + 2), "\"" + entry.name + "\"");
    }
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

template <typename Bits>
std::vector<Bits> bit_patterns(Bits infinity) {
    const Bits sign = Bits{1} << (std::numeric_limits<Bits>::digits - 1);
    const Bits quiet = infinity | (infinity >> 1U & ~infinity);
    std::vector<Bits> patterns{0,
                               1,
                               infinity,
                               infinity + 1,
                               infinity - 1,
                               quiet,
                               quiet + 5,
                               static_cast<Bits>(sign - 1),
                               static_cast<Bits>(~infinity & (sign - 1))};
    std::mt19937_64 generator(1);
    for (int count = 0; count < 1000; ++count) {
        patterns.push_back(static_cast<Bits>(generator()));
        patterns.push_back(static_cast<Bits>(generator()) | infinity); // with any payload
    }
    for (std::size_t index = patterns.size(); index-- > 0;) {
        patterns.push_back(patterns[index] ^ sign);
    }
    return patterns;
}

template <typename Float, typename Bits>
std::vector<Float> floats_of(const std::vector<Bits>& patterns) {
    std::vector<Float> floats(patterns.size());
    std::memcpy(floats.data(), patterns.data(), patterns.size() * sizeof(Bits));
    return floats;
}

TEST_F(SafetensorsTest, EveryKindOfBitPatternComesBack) {
    const auto patterns32 = bit_patterns<std::uint32_t>(0x7f80'0000);
    const auto patterns64 = bit_patterns<std::uint64_t>(0x7ff0'0000'0000'0000);
    std::vector<std::uint8_t> patterns8(256);
    std::iota(patterns8.begin(), patterns8.end(), std::uint8_t{0});
    SafetensorsWriter writer(path_, {});
    writer.declare("f32", DataType::f32, {patterns32.size()});
    writer.declare("u8", DataType::u8, {256});
    writer.declare("f64", DataType::f64, {patterns64.size()});
    writer.write_f32("f32", floats_of<float>(patterns32));
    writer.write_u8("u8", patterns8);
    writer.write_f64("f64", floats_of<double>(patterns64));
    writer.finish();

    const SafetensorsFile file(path_);
    const std::vector<float> floats = file.read_f32("f32");
    const std::vector<double> doubles = file.read_f64("f64");
    ASSERT_EQ(floats.size(), patterns32.size());
    ASSERT_EQ(doubles.size(), patterns64.size());
    EXPECT_EQ(std::memcmp(floats.data(), patterns32.data(), floats.size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(doubles.data(), patterns64.data(), doubles.size() * sizeof(double)), 0);
    EXPECT_EQ(file.read_u8("u8"), patterns8);
}

TEST_F(SafetensorsTest, WholeNumbersOf64BitsComeBack) {
    const std::vector<std::uint64_t> values{0, 1, 0x8000'0000'0000'0000, 0x0123'4567'89ab'cdef,
                                            std::numeric_limits<std::uint64_t>::max()};
    SafetensorsWriter writer(path_, {});
    writer.declare("u64", DataType::u64, {values.size()});
    writer.declare("none", DataType::u64, {0});
    writer.write_u64("u64", values);
    writer.write_u64("none", {});
    writer.finish();
    const SafetensorsFile file(path_);
    EXPECT_EQ(file.find("u64")->type, DataType::u64);
    EXPECT_EQ(file.read_u64("u64"), values);
    EXPECT_TRUE(file.read_u64("none").empty());
    EXPECT_EQ(load(path_).substr(file.data_offset() + 24, 8), "\xef\xcd\xab\x89\x67\x45\x23\x01");
    EXPECT_NE(failure_of([&] {
                  static_cast<void>(file.read_f64("u64"));
              }).text.find("has dtype U64; expected F64"),
              std::string::npos);
    small_file(path_);
    EXPECT_NE(failure_of([&] {
                  static_cast<void>(SafetensorsFile(path_).read_u64("scalar"));
              }).text.find("has dtype F64; expected U64"),
              std::string::npos);
}

TEST_F(SafetensorsTest, WithoutFinishTheOldFileStays) {
    const std::string before = small_file(path_);
    {
        SafetensorsWriter writer(path_, {});
        writer.declare("a", DataType::u8, {1});
        writer.write_u8("a", std::vector<std::uint8_t>{1});
        EXPECT_TRUE(std::filesystem::exists(partial_path()));
    }
    EXPECT_FALSE(std::filesystem::exists(partial_path()));
    EXPECT_EQ(load(path_), before);
}

TEST_F(SafetensorsTest, FinishReplacesTheOldFile) {
    small_file(path_);
    SafetensorsWriter(path_, {}).finish();
    EXPECT_EQ(load(path_), file_bytes("{}      ", ""));
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
