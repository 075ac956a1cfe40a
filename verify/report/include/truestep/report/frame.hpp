#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/report/status.hpp>

/// The common elements of all pages, also for pages made elsewhere.
namespace truestep::report::page {

/// Escapes and cleans text for HTML and XML, also in quoted attributes.
[[nodiscard]] std::string escaped(std::string_view raw);
/// 1234567 as "1,234,567".
[[nodiscard]] std::string count_text(double count);
/// Text such as "1 row", "2 rows".
[[nodiscard]] std::string count_of(std::size_t count, const std::string& thing);
/// A number with this many digits after the point.
[[nodiscard]] std::string fixed(double value, int digits);

/// The CSS class of a status, such as "passed".
[[nodiscard]] std::string class_of(Status status);
/// A symbol and the word, because colour must never be the only distinction.
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
/// An entry of a list of facts, in plain text; "" without a value.
[[nodiscard]] std::string fact(const std::string& what, const std::string& value);
[[nodiscard]] std::string folded(const std::string& summary, const std::string& content,
                                 const std::string& selector = "details");

/// One of the counts of a banner: "12 ✓ passed". "0" is pale.
[[nodiscard]] std::string count_chip(Status status, const std::string& count, const std::string& word);
/// The top of a page. `headline` is plain text; the rest is HTML.
[[nodiscard]] std::string banner(Status status, const std::string& what, const std::string& headline,
                                 const std::string& counts, const std::string& links = "");

/// A table with a caption and a head. With the look "stack" it fits on a phone, where its rows
/// become cards in which each cell follows its column's name. Its roles keep it a table for screen
/// readers in browsers that forget it when the style turns rows into blocks.
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
