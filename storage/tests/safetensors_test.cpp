#include <scape/storage/safetensors.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <ostream>
#include <random>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <scape/problem/error.hpp>

namespace scape::storage {
namespace {

using Metadata = std::map<std::string, std::string>;
using Shape = std::vector<std::uint64_t>;

void store(const std::filesystem::path& path, std::string_view bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string load(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

/// A file around any header text, which need not be valid.
std::string file_bytes(std::string_view header, std::string_view data) {
    const std::uint64_t length = header.size();
    std::string bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    return bytes.append(header).append(data);
}

void read_all(const SafetensorsFile& file) {
    for (const TensorEntry& entry : file.tensors()) {
        EXPECT_EQ(file.find(entry.name), &entry);
        if (entry.type == DataType::f32) {
            EXPECT_EQ(file.read_f32(entry.name).size(), entry.element_count());
        } else if (entry.type == DataType::f64) {
            EXPECT_EQ(file.read_f64(entry.name).size(), entry.element_count());
        } else if (entry.type == DataType::u8) {
            EXPECT_EQ(file.read_u8(entry.name).size(), entry.element_count());
        }
    }
}

struct Failure {
    std::uint64_t offset = 0;
    std::string text; // what follows the offset
};

class SafetensorsTest : public testing::Test {
  protected:
    SafetensorsTest() {
        std::string pattern = testing::TempDir() + "safetensors_XXXXXX";
        folder_ = mkdtemp(pattern.data());
        path_ = folder_ / "file.safetensors";
    }
    ~SafetensorsTest() override { std::filesystem::remove_all(folder_); }

    /// Runs what must throw scape::Error, and checks the form that all its messages have.
    template <typename Action>
    Failure failure_of(Action action) const {
        try {
            action();
        } catch (const Error& error) {
            const std::string message = error.what();
            EXPECT_TRUE(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }))
                << message;
            const std::string mark = ": byte ";
            const std::size_t number = message.find(mark);
            EXPECT_NE(message.find("; ", number), std::string::npos) << message;
            EXPECT_TRUE(message.starts_with(folder_.string())) << message;
            if (number == std::string::npos) {
                return {0, message};
            }
            Failure failure;
            const char* const begin = message.data() + number + mark.size();
            const char* const end =
                std::from_chars(begin, message.data() + message.size(), failure.offset).ptr;
            EXPECT_GT(end, begin) << message;
            EXPECT_TRUE(std::string_view(end).starts_with(": ")) << message;
            failure.text = end;
            return failure;
        }
        ADD_FAILURE() << "nothing was thrown";
        return {};
    }

    Failure failure_to_open() const {
        return failure_of([&] { SafetensorsFile{path_}; });
    }

    template <typename Action>
    void expect_failure(std::uint64_t offset, const std::string& text, Action action) const {
        const Failure failure = failure_of(action);
        EXPECT_EQ(failure.offset, offset) << failure.text;
        EXPECT_NE(failure.text.find(text), std::string::npos) << failure.text;
    }

    void expect_failure_to_open(std::uint64_t offset, const std::string& text) const {
        expect_failure(offset, text, [&] { SafetensorsFile{path_}; });
    }

    std::filesystem::path partial_path() const { return path_.string() + ".partial"; }

    std::filesystem::path folder_;
    std::filesystem::path path_;
};

// ---- Malformed headers, each with the place and the text of its error

constexpr std::string_view at_end = "at the end";

struct Malformed {
    std::string title;
    std::string header;
    std::string_view place; // the last occurrence of this text, or at_end
    std::string text;
    std::size_t data_size = 8;
};

void PrintTo(const Malformed& malformed, std::ostream* stream) {
    *stream << malformed.title;
}

class MalformedHeader : public SafetensorsTest, public testing::WithParamInterface<Malformed> {};

TEST_P(MalformedHeader, IsRefusedWhereItIsWrong) {
    const auto& [title, header, place, text, data_size] = GetParam();
    store(path_, file_bytes(header, std::string(data_size, '\0')));
    const std::size_t position = place == at_end ? header.size() : header.rfind(place);
    ASSERT_NE(position, std::string::npos);
    expect_failure_to_open(8 + position, text);
}

std::string title_of(const testing::TestParamInfo<Malformed>& info) {
    return info.param.title;
}

const Malformed json_cases[] = {
    {"Empty", "", at_end, "does not begin with '{'"},
    {"SpaceFirst", " {}", " {", "does not begin with '{'"},
    {"TopLevelArray", R"([{}])", "[", "does not begin with '{'"},
    {"TopLevelString", R"("a")", "\"a", "does not begin with '{'"},
    {"ByteOrderMark", "\xef\xbb\xbf{}", "\xef", "does not begin with '{'"},
    {"MissingColon", R"({"a" 1})", "1", "unexpected number literal; expected ':'"},
    {"UnendingObject", R"({"a":)", at_end, "unexpected end of input"},
    {"UnendingString", R"({"a)", at_end, "missing closing quote"},
    {"UnendingNumber", R"({"a":{"shape":[1)", at_end, "unexpected end of input; expected ']'"},
    {"TrailingComma", R"({"__metadata__":{},})", "}", "unexpected '}'; expected string literal"},
    {"Comment", R"({/**/})", "/**/", "invalid literal"},
    {"NotANumber", R"({"a":NaN})", "NaN", "invalid literal"},
    {"LeadingZero", R"({"a":{"shape":[02]}})", "2]", "expected ']'"},
    {"InvalidUtf8", "{\"a\xff\":{}}", "\xff", "ill-formed UTF-8"},
    {"OverlongUtf8", "{\"a\xc0\xaf\":{}}", "\xc0", "ill-formed UTF-8"},
    {"CutUtf8", "{\"a\xe2\x82\":{}}", "\":", "ill-formed UTF-8"},
    {"ByteOutsideStrings", "{\xff}", "\xff", "invalid literal"},
    {"LoneSurrogate", R"({"\ud800":{}})", "\":", "surrogate"},
    {"UnknownEscape", R"({"\x41":{}})", "x41", "forbidden character after backslash"},
    {"NewlineInString", "{\"a\nb\":{}}", "\n", "control character"},
    {"EscapedNewlineByte", "{\"a\\\nb\":{}}", "\n", "forbidden character after backslash"},
    {"ZeroByteInside", std::string("{\0}", 3), std::string_view("\0", 1), "control character"},
    {"ZeroByteAfter", std::string("{}\0", 3), std::string_view("\0", 1), "control character"},
    {"TextAfter", "{} x ", "x", "continues after its JSON object"},
    {"ObjectAfter", "{}{}", "{}", "continues after its JSON object"},
};
INSTANTIATE_TEST_SUITE_P(Json, MalformedHeader, testing::ValuesIn(json_cases), title_of);

const Malformed entry_cases[] = {
    {"Null", R"({"a":null})", "null", "tensor \"a\" is null"},
    {"True", R"({"a":true})", "true", "tensor \"a\" is true"},
    {"Number", R"({"a":-1.5})", "-1.5", "tensor \"a\" is -1.5"},
    {"Array", R"({"a" : []})", "[]", "tensor \"a\" is an array"},
    {"String", R"({"a":"b"})", "\"b\"", "tensor \"a\" is a string"},
    {"Empty", R"({"a":{}})", "\"a\"", "tensor \"a\" has no dtype"},
    {"NoDtype", R"({"a":{"shape":[2],"data_offsets":[0,8]}})", "\"a\"", "has no dtype"},
    {"NoShape", R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", "\"a\"", "has no shape"},
    {"NoOffsets", R"({"a":{"dtype":"F32","shape":[2]}})", "\"a\"", "has no data_offsets"},
    {"SecondDtype", R"({"a":{"dtype":"F32","dtype":"F32"}})", "\"dtype\"", "has dtype twice"},
    {"SecondShape", R"({"a":{"shape":[2],"shape":[2]}})", "\"shape\"", "has shape twice"},
    {"SecondOffsets", R"({"a":{"data_offsets":[0,8],"data_offsets":[0,8]}})", "\"data_offsets\"",
     "has data_offsets twice"},
    {"UnknownKey", R"({"a":{"dtype":"F32","color":1}})", "\"color\"", "unknown key \"color\""},
    {"UnknownDtype", R"({"a":{"dtype":"F31"}})", "\"F31\"",
     "unknown dtype \"F31\"; expected one of BOOL U8"},
    {"LowerCaseDtype", R"({"a":{"dtype":"f32"}})", "\"f32\"", "unknown dtype \"f32\""},
    {"NumberAsDtype", R"({"a":{"dtype":32}})", "32", "dtype of tensor \"a\" is 32; expected a string"},
    {"NullAsDtype", R"({"a":{"dtype":null}})", "null", "dtype of tensor \"a\" is null"},
    {"ObjectAsDtype", R"({"a":{"dtype":{}}})", "{}", "dtype of tensor \"a\" is an object"},
    {"ArrayAsDtype", R"({"a":{"dtype":["F32"]}})", "[", "dtype of tensor \"a\" is an array"},
    {"NumberAsShape", R"({"a":{"shape": 2 }})", "2", "shape of tensor \"a\" is 2; expected an array"},
    {"ObjectAsShape", R"({"a":{"shape":{}}})", "{}", "shape of tensor \"a\" is an object"},
    {"StringAsShape", R"({"a":{"shape":"2"}})", "\"2\"", "shape of tensor \"a\" is a string"},
    {"NullAsOffsets", R"({"a":{"data_offsets":null}})", "null", "data_offsets of tensor \"a\" is null"},
};
INSTANTIATE_TEST_SUITE_P(Entry, MalformedHeader, testing::ValuesIn(entry_cases), title_of);

const Malformed integer_cases[] = {
    {"NegativeExtent", R"({"a":{"shape":[2,-3]}})", "-3",
     "the element -3; expected an integer from 0 to 2^63 - 1"},
    {"NegativeZero", R"({"a":{"shape":[-0]}})", "-0", "the element -0"},
    {"FractionalExtent", R"({"a":{"shape":[2.0]}})", "2.0", "the element 2.0"},
    {"ExponentExtent", R"({"a":{"shape":[2e0]}})", "2e0", "the element 2e0"},
    {"StringExtent", R"({"a":{"shape":["2"]}})", "\"2\"", "the element a string"},
    {"FalseExtent", R"({"a":{"shape":[1, false]}})", "false", "the element false"},
    {"ObjectExtent", R"({"a":{"shape":[1,{}]}})", "{}", "the element an object"},
    {"Extent63Bits", R"({"a":{"shape":[9223372036854775808]}})", "922", "the element 9223372036854775808"},
    {"Extent64Bits", R"({"a":{"shape":[18446744073709551615]}})", "184",
     "the element 18446744073709551615"},
    {"Extent65Bits", R"({"a":{"shape":[18446744073709551616]}})", "184",
     "the element 18446744073709551616"},
    {"ExtentBeyondDouble", R"({"a":{"shape":[1e999]}})", "1e999", "the element 1e999"},
    {"NegativeOffset", R"({"a":{"data_offsets":[-8,0]}})", "-8",
     "data_offsets of tensor \"a\" has the element -8"},
    {"FractionalOffset", R"({"a":{"data_offsets":[0,8.5]}})", "8.5", "the element 8.5"},
    {"HugeOffset", R"({"a":{"data_offsets":[0,99999999999999999999]}})", "99999999999999999999",
     "the element 9999"},
};
INSTANTIATE_TEST_SUITE_P(Integer, MalformedHeader, testing::ValuesIn(integer_cases), title_of);

const Malformed size_cases[] = {
    {"NoOffsets", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[]}})", "\"a\"", "has 0 data_offsets"},
    {"OneOffset", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8]}})", "\"a\"", "has 1 data_offsets"},
    {"ThreeOffsets", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", "\"a\"",
     "has 3 data_offsets; expected 2"},
    {"EndBeforeBegin", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "\"a\"",
     "[8, 0) that end before they begin"},
    {"TooFewBytes", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "\"a\"",
     "[0, 4), 4 bytes; expected 8 bytes"},
    {"TooManyBytes", R"({"a":{"dtype":"U8","shape":[2,3],"data_offsets":[0,8]}})", "\"a\"",
     "[0, 8), 8 bytes; expected 6 bytes"},
    {"BytesOfScalar", R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,8]}})", "\"a\"",
     "expected 4 bytes"},
    {"BytesOfZeroSize", R"({"a":{"dtype":"F32","shape":[2,0],"data_offsets":[0,8]}})", "\"a\"",
     "expected 0 bytes"},
    {"CountOverflows", R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
     "\"a\"", "size overflows"},
    {"ByteCountOverflows", R"({"a":{"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]}})",
     "\"a\"", "size overflows"},
    {"BeyondData", R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", "\"a\"",
     "[0, 12) beyond the data section of 8 bytes; the file is truncated"},
    {"FarBeyondData",
     R"({"a":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]}})",
     "\"a\"", "beyond the data section"},
    {"ZeroSizeBeyondData", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[9,9]}})", "\"a\"",
     "beyond the data section"},
    {"Overlap",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[3,7]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
     "\"a\"", "tensor \"a\" at [3, 7) overlaps tensor \"b\" at [0, 4)"},
    {"SameBytes",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})",
     "\"b\"", "tensor \"b\" at [0, 8) overlaps tensor \"a\" at [0, 8)"},
    {"ZeroSizeInside",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F64","shape":[0],"data_offsets":[4,4]}})",
     "\"b\"", "tensor \"b\" at [4, 4) overlaps tensor \"a\""},
    {"GapBefore", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", at_end,
     "no tensor covers the bytes [0, 4)"},
    {"SameName",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     "\"a\"", "tensor \"a\" is given twice"},
    {"SameNameEscaped",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"\u0061":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
     "\"\\u0061\"", "tensor \"a\" is given twice"},
};
INSTANTIATE_TEST_SUITE_P(Size, MalformedHeader, testing::ValuesIn(size_cases), title_of);

const Malformed metadata_cases[] = {
    {"Null", R"({"__metadata__":null})", "null", "the metadata is null; expected an object of strings"},
    {"Array", R"({"__metadata__":[]})", "[]", "the metadata is an array"},
    {"Number", R"({"__metadata__":1})", "1", "the metadata is 1"},
    {"NumberAsValue", R"({"__metadata__":{"k":1}})", "1", "metadata \"k\" is 1; expected a string"},
    {"NullAsValue", R"({"__metadata__":{"k":null}})", "null", "metadata \"k\" is null"},
    {"ArrayAsValue", R"({"__metadata__":{"k":["v"]}})", "[", "metadata \"k\" is an array"},
    {"ObjectAsValue", R"({"__metadata__":{"k":{}}})", "{}", "metadata \"k\" is an object"},
    {"SecondKey", R"({"__metadata__":{"k":"1","l":"2","k":"1"}})", "\"k\"",
     "metadata \"k\" is given twice"},
    {"Second", R"({"__metadata__":{},"__metadata__":{}})", "\"__", "the metadata is given twice"},
};
INSTANTIATE_TEST_SUITE_P(Metadata, MalformedHeader, testing::ValuesIn(metadata_cases), title_of);

TEST_F(SafetensorsTest, DeepNestingIsRefusedWhereItBegins) {
    const auto expect_refused = [&](std::string header, const std::string& repeated,
                                    const std::string& text) {
        const std::size_t position = header.size();
        for (int depth = 0; depth < 1'000'000; ++depth) {
            header += repeated;
        }
        store(path_, file_bytes(header, ""));
        expect_failure_to_open(8 + position, text);
    };
    expect_refused(R"({"a":)", "[", "tensor \"a\" is an array");
    expect_refused(R"({"a":{"shape":[)", "[", "shape of tensor \"a\" has the element an array");
    expect_refused(R"({"a":{"dtype":)", R"({"b":)", "dtype of tensor \"a\" is an object");
    expect_refused(R"({"__metadata__":{"k":)", R"({"k":)", "metadata \"k\" is an object");
}

TEST_F(SafetensorsTest, MessagesEscapeAndShortenNames) {
    const std::string header = R"({"a\n\u001b[31m\u0000é\u202e\u007f":1})";
    store(path_, file_bytes(header, ""));
    expect_failure_to_open(8 + header.rfind('1'), R"(tensor "a\n\u001b[31m\u0000\u00e9\u202e\u007f" is 1)");
    store(path_, file_bytes("{\"" + std::string(1'000'000, 'n') + "\":1}", ""));
    EXPECT_LT(failure_to_open().text.size(), 400U);
    store(path_, file_bytes("{\"" + std::string(1'000'000, 'n') + "\n", ""));
    EXPECT_LT(failure_to_open().text.size(), 400U);
    store(path_, file_bytes("{\"" + std::string(1'000'000, 'n') + "\xff", ""));
    EXPECT_LT(failure_to_open().text.size(), 400U);

    path_ = folder_ / "new\nline\xff";
    store(path_, file_bytes("[]", ""));
    expect_failure_to_open(8, "does not begin");
}

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

std::string small_file(const std::filesystem::path& path) {
    SafetensorsWriter writer(path, {{"key", "value"}, {"é\n", ""}});
    writer.declare("scalar", DataType::f64, {});
    writer.declare("matrix", DataType::f32, {2, 3});
    writer.declare("empty", DataType::f32, {0});
    writer.declare("flags", DataType::u8, {3});
    writer.write_f64("scalar", std::vector{0.5});
    writer.write_f32("matrix", std::vector{1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F});
    writer.write_f32("empty", {});
    writer.write_u8("flags", std::vector<std::uint8_t>{1, 0, 1});
    writer.finish();
    return load(path);
}

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
    std::filesystem::create_directories(path_ / "content");
    SafetensorsWriter writer(path_, {});
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
} // namespace scape::storage
