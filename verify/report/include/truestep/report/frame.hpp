#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/report/status.hpp>

/// What every page of ours is made of, for those who write one elsewhere.
namespace truestep::report::page {

/// For text and for attributes in quotes, of HTML and of XML; cleaned.
[[nodiscard]] std::string escaped(std::string_view raw);
/// 1234567 as "1,234,567".
[[nodiscard]] std::string count_text(double count);
/// "1 row", "2 rows".
[[nodiscard]] std::string count_of(std::size_t count, const std::string& thing);
/// With so many digits behind the point.
[[nodiscard]] std::string fixed(double value, int digits);

/// "passed": the class of CSS.
[[nodiscard]] std::string class_of(Status status);
/// A symbol and the word: colour is never all that tells.
[[nodiscard]] std::string badge(Status status, const std::string& word);
[[nodiscard]] std::string symbol(Status status);

[[nodiscard]] std::string section(const std::string& id, const std::string& heading,
                                  const std::string& content);
/// Commands and environments, folded.
[[nodiscard]] std::string made(const std::vector<nlohmann::ordered_json>& results);
/// A whole page. `title` is plain text, `content` HTML.
[[nodiscard]] std::string framed(const std::string& title, Status status, const std::string& content);

/// A length in a drawing: "12.5".
[[nodiscard]] std::string px(double value);

} // namespace truestep::report::page
