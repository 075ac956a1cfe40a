// Reads keys of incomplete results, and formats and escapes text for XML and HTML.
#include "page_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <truestep/problem/text.hpp>

namespace truestep::report::page {

namespace {

/// The number of bytes of the UTF-8 character that begins here, if XML and HTML may hold it; else
/// 0.
std::size_t character_length(std::string_view bytes) {
    const auto byte = [&](std::size_t i) {
        return static_cast<unsigned>(static_cast<unsigned char>(bytes[i]));
    };
    const unsigned lead = byte(0);
    const std::size_t length = lead < 0x80U ? 1 : lead >= 0xf0U ? 4 : lead >= 0xe0U ? 3 : 2;
    if ((lead >= 0x80U && lead < 0xc2U) || lead > 0xf4U || bytes.size() < length)
        return 0;
    unsigned code = length == 1 ? lead : lead & (0x7fU >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0U) != 0x80U)
            return 0;
        code = code << 6U | (byte(i) & 0x3fU);
    }
    const bool overlong = (length == 3 && code < 0x800U) || (length == 4 && code < 0x10000U);
    const bool surrogate = code >= 0xd800U && code <= 0xdfffU;
    const bool beyond = code > 0x10ffffU || code == 0xfffeU || code == 0xffffU;
    return overlong || surrogate || beyond ? 0 : length;
}

} // namespace

const ordered_json& at(const ordered_json& object, const std::string& key) {
    static const ordered_json null;
    if (!object.is_object())
        return null;
    const auto found = object.find(key);
    return found == object.end() ? null : *found;
}

std::string plain(const ordered_json& value) {
    if (value.is_string())
        return value.get<std::string>();
    if (value.is_number_float())
        return shortest(value.get<double>());
    return value.is_number() || value.is_boolean() ? value.dump() : std::string();
}

std::string text(const ordered_json& object, const std::string& key) {
    const ordered_json& value = at(object, key);
    return value.is_boolean() ? std::string() : plain(value);
}

std::string place_text(const ordered_json& object, const std::string& key) {
    return at(object, key).is_number() && number(object, key) < 0.0 ? std::string() : text(object, key);
}

std::string word_for(const ordered_json& object, const std::string& word) {
    const std::string own = text(at(object, "words"), word);
    return own.empty() ? word : own;
}

double number(const ordered_json& object, const std::string& key) {
    const ordered_json& value = at(object, key);
    if (value.is_number())
        return value.get<double>();
    return value == "inf" ? std::numeric_limits<double>::infinity() : 0.0;
}

const ordered_json& list(const ordered_json& object, const std::string& key) {
    static const ordered_json empty = ordered_json::array();
    const ordered_json& value = at(object, key);
    return value.is_array() ? value : empty;
}

std::string clean(std::string_view bytes) {
    std::string result;
    while (!bytes.empty()) {
        const std::size_t length = character_length(bytes);
        const char first = bytes.front();
        if (length == 0)
            result += "\xef\xbf\xbd"; // the replacement character
        else if (length > 1 || (first >= ' ' && first != '\x7f') || first == '\n' || first == '\t')
            result += bytes.substr(0, length);
        bytes.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return result;
}

std::string escaped(std::string_view raw) {
    std::string result;
    for (const char one : clean(raw))
        switch (one) {
        case '&':
            result += "&amp;";
            break;
        case '<':
            result += "&lt;";
            break;
        case '>':
            result += "&gt;";
            break;
        case '"':
            result += "&quot;";
            break;
        case '\'':
            result += "&#39;";
            break;
        default:
            result += one;
        }
    return result;
}

std::string escaped(const ordered_json& object, const std::string& key) {
    return escaped(text(object, key));
}

std::string fixed(double value, int digits) {
    if (!std::isfinite(value))
        return std::isnan(value) ? "NaN" : value < 0.0 ? "-∞" : "∞";
    std::array<char, 400> buffer{};
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, digits)
            .ptr;
    return {buffer.data(), end};
}

std::string count_text(double count) {
    std::string digits = fixed(count, 0);
    if (!std::isfinite(count))
        return digits;
    const std::size_t sign = digits.starts_with('-') ? 1 : 0;
    for (std::size_t i = digits.size(); i > sign + 3; i -= 3)
        digits.insert(i - 3, ",");
    return digits;
}

std::string count_of(std::size_t count, const std::string& thing) {
    return count_text(static_cast<double>(count)) + " " + thing + (count == 1 ? "" : "s");
}

std::string duration(double seconds) {
    if (seconds < 0.0005)
        return "<1 ms";
    if (seconds < 0.9995)
        return fixed(1000.0 * seconds, 0) + " ms";
    if (seconds < 59.95)
        return fixed(seconds, 1) + " s";
    const double whole = std::round(seconds);
    const double minutes = std::floor(whole / 60.0);
    const std::string rest = fixed(whole - 60.0 * minutes, 0);
    return count_text(minutes) + " min " + (rest.size() == 1 ? "0" : "") + rest + " s";
}

std::string distance(std::uint32_t a, std::uint32_t b) {
    constexpr std::uint32_t magnitude = 0x7fffffffU;
    constexpr std::uint32_t infinity = 0x7f800000U;
    if (a == b || (a & magnitude) >= infinity || (b & magnitude) >= infinity)
        return {};
    if ((a & magnitude) == 0 && (b & magnitude) == 0)
        return "only the sign of zero differs";
    const auto ordered = [](std::uint32_t bits) {
        const std::int64_t size = bits & magnitude;
        return bits > magnitude ? -size : size;
    };
    const std::int64_t apart = ordered(a) - ordered(b);
    return count_text(static_cast<double>(apart < 0 ? -apart : apart)) + " ULP";
}

std::string percentage(double share) {
    if (!std::isfinite(share))
        return "∞";
    const double percent = 100.0 * share;
    if (percent > 999.0)
        return ">999 %";
    // 100.4 % is beyond a limit and must not be shown as 100 %.
    const bool on_the_edge = percent > 99.0 && percent < 101.0 && percent != 100.0;
    const bool small = percent > 0.0 && percent < 0.95;
    return (percent > 0.0 && percent < 0.05 ? std::string("<0.1")
                                            : fixed(percent, small || on_the_edge ? 1 : 0)) +
           " %";
}

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
    std::string result;
    for (const std::string& part : parts)
        if (!part.empty())
            result += (result.empty() ? "" : between) + part;
    return result;
}

} // namespace truestep::report::page
