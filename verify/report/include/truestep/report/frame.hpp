#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
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
/// A whole page. `title` is plain text, the rest HTML.
[[nodiscard]] std::string framed(const std::string& title, Status status, const std::string& banner,
                                 const std::string& content);

using Attributes = std::vector<std::pair<const char*, std::string>>;
/// An element as CSS selects it: "td.number", "article.failure.passed". `content` is HTML, attributes are
/// plain text.
[[nodiscard]] std::string element(const std::string& selector, const std::string& content,
                                  const Attributes& attributes = {});
/// A box in which something wide scrolls by itself.
[[nodiscard]] std::string wide(const std::string& label, const std::string& content);
/// Of a list of facts, plain text; "" without a value.
[[nodiscard]] std::string fact(const std::string& what, const std::string& value);
[[nodiscard]] std::string folded(const std::string& summary, const std::string& content,
                                 const std::string& selector = "details");

/// One of the counts of a banner: "12 ✓ passed". "0" is pale.
[[nodiscard]] std::string count_chip(Status status, const std::string& count, const std::string& word);
/// The top of a page. `headline` is plain text; the rest is HTML.
[[nodiscard]] std::string banner(Status status, const std::string& what, const std::string& headline,
                                 const std::string& counts, const std::string& links = "");

/// A table with a caption and a head. One that looks like "stack" fits on a phone, because its rows become
/// cards there, in which each cell stands behind its column's name. Its roles keep it a table for readers
/// of screens in browsers that forget it when the style turns rows into blocks.
class HtmlTable {
  public:
    struct Column {
        std::string name;   ///< HTML
        std::string kind{}; ///< class of its cells; "head": they head their rows
    };
    /// `columns` also as "status:status, no.:number": names and kinds.
    HtmlTable(const std::string& look, const std::string& caption, std::vector<Column> columns,
              bool caption_shown = false);
    HtmlTable(const std::string& look, const std::string& caption, const std::string& columns,
              bool caption_shown = false);
    void row(const std::vector<std::string>& cells, const std::string& look = "");
    [[nodiscard]] std::string html() const;

  private:
    [[nodiscard]] Attributes roles(const std::string& role, Attributes attributes = {}) const;

    std::vector<Column> columns_;
    bool stacked_;
    std::string look_;
    std::string html_;
    std::string rows_;
};

} // namespace truestep::report::page
