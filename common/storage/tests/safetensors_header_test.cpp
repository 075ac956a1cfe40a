// Tests that malformed safetensors headers are refused, with the place and the text of the error.
#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "safetensors_support.hpp"

namespace truestep::storage {
namespace {

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

} // namespace
} // namespace truestep::storage
