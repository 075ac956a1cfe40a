#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/report/frame.hpp>

/// Reading results that may lack things, wording, escaping.
namespace truestep::report::page {

using nlohmann::ordered_json;

/// The value of a key; null where there is none.
[[nodiscard]] const ordered_json& at(const ordered_json& object, const std::string& key);
/// A text, or a number as text; "" for anything else.
[[nodiscard]] std::string text(const ordered_json& object, const std::string& key);
/// The same of a place: "" too for a negative number, which means that there is none.
[[nodiscard]] std::string place_text(const ordered_json& object, const std::string& key);
/// What the system of a run calls a "step" or a "rank".
[[nodiscard]] std::string word_for(const ordered_json& object, const std::string& word);
/// A number, or the text "inf"; 0 for anything else.
[[nodiscard]] double number(const ordered_json& object, const std::string& key);
/// What a value that is neither list nor object holds, as text.
[[nodiscard]] std::string plain(const ordered_json& value);
/// A list; an empty one for anything else.
[[nodiscard]] const ordered_json& list(const ordered_json& object, const std::string& key);

/// UTF-8 without what neither XML nor HTML may hold: control characters are dropped, broken bytes replaced.
[[nodiscard]] std::string clean(std::string_view bytes);
/// escaped(text(...)).
[[nodiscard]] std::string escaped(const ordered_json& object, const std::string& key);

/// Plain text: "<1 ms", "45 ms", "3.2 s", "2 min 05 s".
[[nodiscard]] std::string duration(double seconds);
/// How many floats lie between two finite ones, given as bits; "only the sign of zero differs"; "" where
/// there is nothing to say.
[[nodiscard]] std::string distance(std::uint32_t a, std::uint32_t b);
/// Plain text: "31 %", "<0.1 %", ">999 %", "∞".
[[nodiscard]] std::string percentage(double share);
/// The parts that are not empty.
[[nodiscard]] std::string joined(const std::vector<std::string>& parts, const std::string& between);

} // namespace truestep::report::page
