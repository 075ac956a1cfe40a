#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/report/frame.hpp>

/// Reads results that may be incomplete; words and escapes text.
namespace truestep::report::page {

using nlohmann::ordered_json;

/// The value of a key; null if it is missing.
[[nodiscard]] const ordered_json& at(const ordered_json& object, const std::string& key);
/// A text, or a number as text; "" for anything else.
[[nodiscard]] std::string text(const ordered_json& object, const std::string& key);
/// The same for a place: also "" for a negative number, which means that there is none.
[[nodiscard]] std::string place_text(const ordered_json& object, const std::string& key);
/// The word of a run's system for "step" or "rank".
[[nodiscard]] std::string word_for(const ordered_json& object, const std::string& word);
/// A number, or the text "inf"; 0 for anything else.
[[nodiscard]] double number(const ordered_json& object, const std::string& key);
/// The text of a value that is neither list nor object.
[[nodiscard]] std::string plain(const ordered_json& value);
/// A list; an empty one for anything else.
[[nodiscard]] const ordered_json& list(const ordered_json& object, const std::string& key);

/// UTF-8 without characters that XML or HTML forbids: control characters are dropped, broken bytes
/// replaced.
[[nodiscard]] std::string clean(std::string_view bytes);
/// The escaped text of a key.
[[nodiscard]] std::string escaped(const ordered_json& object, const std::string& key);

/// Plain text: "<1 ms", "45 ms", "3.2 s", "2 min 05 s".
[[nodiscard]] std::string duration(double seconds);
/// The distance of two finite floats, given as bits: a count, "only the sign of zero differs", or
/// "" if there is none.
[[nodiscard]] std::string distance(std::uint32_t a, std::uint32_t b);
/// Plain text: "31 %", "<0.1 %", ">999 %", "∞".
[[nodiscard]] std::string percentage(double share);
/// Joins the parts that are not empty.
[[nodiscard]] std::string joined(const std::vector<std::string>& parts, const std::string& between);

} // namespace truestep::report::page
