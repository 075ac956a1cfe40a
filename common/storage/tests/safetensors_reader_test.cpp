// Tests which safetensors files are read, and that truncated or damaged ones are refused.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "safetensors_support.hpp"

namespace truestep::storage {
namespace {

// ---- Files that are no safetensors files

TEST_F(SafetensorsTest, MissingFile) {
    expect_failure_to_open(0, "cannot be opened: No such file");
}

TEST_F(SafetensorsTest, Folder) {
    path_ = folder_;
    expect_failure_to_open(0, "is a directory");
}

TEST_F(SafetensorsTest, PipeIsRefusedAndNotWaitedFor) {
    ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
    expect_failure_to_open(0, "is not a regular file");
}

TEST_F(SafetensorsTest, UnreadableFile) {
    if (geteuid() == 0) {
        GTEST_SKIP() << "root reads every file";
    }
    store(path_, file_bytes("{}", ""));
    std::filesystem::permissions(path_, std::filesystem::perms::none);
    expect_failure_to_open(0, "cannot be opened: Permission denied");
}

TEST_F(SafetensorsTest, EmptyFile) {
    store(path_, "");
    expect_failure_to_open(0, "the file ends after 0 bytes; expected the 8 bytes of the header's length");
}

TEST_F(SafetensorsTest, SevenBytes) {
    store(path_, "1234567");
    expect_failure_to_open(7, "the file ends after 7 bytes");
}

TEST_F(SafetensorsTest, HeaderBeyondTheFile) {
    store(path_, file_bytes("{}  ", "").substr(0, 11));
    expect_failure_to_open(11, "the file ends inside its header of 4 bytes; expected at least 12 bytes");
}

TEST_F(SafetensorsTest, HeaderBeyondTheLimitIsNotRead) {
    store(path_, std::string(8, '\xff'));
    expect_failure_to_open(0,
                           "the header's length is 18446744073709551615 bytes; expected at most 100000000");
    // A sparse file, long enough for its header.
    const std::uint64_t length = 100'000'001;
    std::string start(8, '\0');
    std::memcpy(start.data(), &length, sizeof length);
    store(path_, start);
    std::filesystem::resize_file(path_, 8 + length);
    expect_failure_to_open(0, "the header's length is 100000001 bytes");
}

TEST_F(SafetensorsTest, GapBetweenTensors) {
    const std::string header =
        R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[3],"data_offsets":[5,8]}})";
    store(path_, file_bytes(header, "12345678"));
    expect_failure_to_open(8 + header.size() + 2, "no tensor covers the bytes [2, 5) of the data section");
}

TEST_F(SafetensorsTest, BytesAfterTheLastTensor) {
    const std::string header = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
    store(path_, file_bytes(header, "123"));
    expect_failure_to_open(8 + header.size() + 2, "no tensor covers the bytes [2, 3) of the data section");
    store(path_, file_bytes("{}", "123"));
    expect_failure_to_open(10, "no tensor covers the bytes [0, 3) of the data section");
}

// ---- Files that are legal

TEST_F(SafetensorsTest, ReadsTensorsInTheOrderOfTheirData) {
    const std::string header = R"({"second":{"data_offsets":[8,11],"shape":[3,1],"dtype":"U8"},)"
                               R"("__metadata__":{"key":"value","":""},)"
                               R"("first":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}   )";
    std::string data(8, '\0');
    const double value = -1.25;
    std::memcpy(data.data(), &value, sizeof value);
    store(path_, file_bytes(header, data + "abc"));

    const SafetensorsFile file(path_);
    EXPECT_EQ(file.path(), path_);
    EXPECT_EQ(file.metadata(), (Metadata{{"key", "value"}, {"", ""}}));
    EXPECT_EQ(file.data_offset(), 8 + header.size());
    ASSERT_EQ(file.tensors().size(), 2U);
    EXPECT_EQ(file.tensors()[0].name, "first");
    EXPECT_EQ(file.tensors()[0].type, DataType::f64);
    EXPECT_EQ(file.tensors()[0].shape, Shape{});
    EXPECT_EQ(file.tensors()[0].element_count(), 1U);
    EXPECT_EQ(file.tensors()[0].header_offset, 8 + header.find("\"first\""));
    EXPECT_EQ(file.tensors()[1].name, "second");
    EXPECT_EQ(file.tensors()[1].shape, (Shape{3, 1}));
    EXPECT_EQ(file.tensors()[1].begin, 8U);
    EXPECT_EQ(file.tensors()[1].end, 11U);
    EXPECT_EQ(file.tensors()[1].header_offset, 9U);
    EXPECT_EQ(file.find("second"), &file.tensors()[1]);
    EXPECT_EQ(file.find("third"), nullptr);
    EXPECT_EQ(file.find(""), nullptr);
    EXPECT_EQ(file.read_f64("first"), std::vector<double>{-1.25});
    EXPECT_EQ(file.read_u8("second"), (std::vector<std::uint8_t>{'a', 'b', 'c'}));
}

TEST_F(SafetensorsTest, ReadsAnEmptyHeader) {
    store(path_, file_bytes("{}", ""));
    const SafetensorsFile file(path_);
    EXPECT_TRUE(file.tensors().empty());
    EXPECT_TRUE(file.metadata().empty());
}

TEST_F(SafetensorsTest, ReadsAHeaderOverSeveralLines) {
    store(path_,
          file_bytes(
              "{\n\t\"a\" :\r\n{ \"dtype\": \"U8\",\n\"shape\": [ 2\n],\n\"data_offsets\":[0 ,\t2] }\n}\n",
              "xy"));
    EXPECT_EQ(SafetensorsFile(path_).read_u8("a"), (std::vector<std::uint8_t>{'x', 'y'}));
}

TEST_F(SafetensorsTest, ZeroSizeTensorsMayStandBetweenAndAtTheEnds) {
    store(
        path_,
        file_bytes(
            R"({"d":{"dtype":"F64","shape":[0],"data_offsets":[2,2]},)"
            R"("c":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
            R"("b":{"dtype":"F32","shape":[9223372036854775807,9223372036854775807,0],"data_offsets":[1,1]},)"
            R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
            R"("":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
            "xy"));
    const SafetensorsFile file(path_);
    std::string names;
    for (const TensorEntry& entry : file.tensors()) {
        names += entry.name + ";";
    }
    EXPECT_EQ(names, ";a;b;c;d;");
    EXPECT_EQ(file.find("b")->element_count(), 0U);
    EXPECT_TRUE(file.read_f32("b").empty());
    EXPECT_EQ(file.read_u8("c"), std::vector<std::uint8_t>{'y'});
}

TEST_F(SafetensorsTest, AllDataTypesAreKnown) {
    const std::map<std::string, std::uint64_t> sizes{
        {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"U16", 2}, {"I16", 2}, {"F16", 2}, {"BF16", 2},
        {"U32", 4},  {"I32", 4}, {"F32", 4}, {"U64", 8}, {"I64", 8}, {"F64", 8}};
    for (const auto& [type_name, size] : sizes) {
        store(path_, file_bytes(R"({"a":{"dtype":")" + type_name + R"(","shape":[3],"data_offsets":[0,)" +
                                    std::to_string(3 * size) + "]}}",
                                std::string(3 * size, 'x')));
        const SafetensorsFile file(path_);
        EXPECT_EQ(name(file.tensors()[0].type), type_name);
        EXPECT_EQ(element_size(file.tensors()[0].type), size);
    }
    EXPECT_EQ(name(DataType::boolean), "BOOL");
    EXPECT_EQ(name(DataType::f64), "F64");
}

TEST_F(SafetensorsTest, ManyTensorsAreFine) {
    std::string header = "{";
    for (int index = 0; index < 20'000; ++index) {
        header += (index == 0 ? "\"t" : ",\"t") + std::to_string(index) +
                  R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(index) + "," +
                  std::to_string(index + 1) + "]}";
    }
    store(path_, file_bytes(header + "}", std::string(20'000, 'x')));
    const SafetensorsFile file(path_);
    ASSERT_NE(file.find("t19999"), nullptr);
    EXPECT_EQ(file.find("t19999")->begin, 19'999U);
}

// ---- Reading data

TEST_F(SafetensorsTest, AbsentTensor) {
    store(path_, file_bytes("{}", ""));
    const SafetensorsFile file(path_);
    expect_failure(8, "the header has no tensor \"a\\n\"", [&] { file.read_f32("a\n"); });
}

TEST_F(SafetensorsTest, WrongDataTypeNamesBoth) {
    store(path_, file_bytes(R"({ "a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})", "xy"));
    const SafetensorsFile file(path_);
    expect_failure(10, "tensor \"a\" has dtype BF16; expected F32", [&] { file.read_f32("a"); });
    expect_failure(10, "tensor \"a\" has dtype BF16; expected F64", [&] { file.read_f64("a"); });
    expect_failure(10, "tensor \"a\" has dtype BF16; expected U8", [&] { file.read_u8("a"); });
    expect_failure(10, "tensor \"a\" has dtype BF16; expected U64", [&] { file.read_u64("a"); });
}

TEST_F(SafetensorsTest, FileThatShrankAfterItWasOpened) {
    const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    store(path_, file_bytes(header, "12345678"));
    const SafetensorsFile file(path_);
    std::filesystem::resize_file(path_, 8 + header.size() + 3);
    expect_failure(8 + header.size() + 3, "it has shrunk since it was opened; expected another 5 bytes",
                   [&] { file.read_f32("a"); });
}

TEST_F(SafetensorsTest, FileThatWasReplacedAfterItWasOpened) {
    const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    store(path_, file_bytes(header, "x"));
    const SafetensorsFile file(path_);
    store(folder_ / "other", file_bytes(header, "y"));
    std::filesystem::rename(folder_ / "other", path_);
    EXPECT_EQ(file.read_u8("a"), std::vector<std::uint8_t>{'x'});
}

// ---- Damage at every byte

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
    const std::string bytes = small_file(path_);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        store(path_, bytes.substr(0, size));
        const Failure failure = failure_to_open();
        EXPECT_LE(failure.offset, size);
    }
}

TEST_F(SafetensorsTest, EveryDamagedHeaderByteIsRefusedOrHarmless) {
    const std::string bytes = small_file(path_);
    const std::size_t header_end = SafetensorsFile(path_).data_offset();
    std::size_t refused = 0;
    for (std::size_t position = 0; position < header_end; ++position) {
        for (const int flipped : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
            std::string damaged = bytes;
            damaged[position] = static_cast<char>(static_cast<unsigned char>(damaged[position]) ^ flipped);
            store(path_, damaged);
            try {
                read_all(SafetensorsFile(path_));
            } catch (const Error&) {
                ++refused;
            }
        }
    }
    // Only names and metadata may change unnoticed.
    EXPECT_GT(refused, header_end * 9 * 3 / 4);
}

} // namespace
} // namespace truestep::storage
