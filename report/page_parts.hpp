#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <scape/report/status.hpp>

/// What the page and JUnit are made of: reading results that may lack things, wording, escaping.
namespace scape::report::page {

using nlohmann::ordered_json;

/// The value of a key; null where there is none.
[[nodiscard]] const ordered_json& at(const ordered_json& object, const std::string& key);
/// A text, or a number as text; "" for anything else.
[[nodiscard]] std::string text(const ordered_json& object, const std::string& key);
/// The same of a place: "" too for a negative number, which means that there is none.
[[nodiscard]] std::string place_text(const ordered_json& object, const std::string& key);
/// A number, or the text "inf"; 0 for anything else.
[[nodiscard]] double number(const ordered_json& object, const std::string& key);
/// What a value that is neither list nor object holds, as text.
[[nodiscard]] std::string plain(const ordered_json& value);
/// A list; an empty one for anything else.
[[nodiscard]] const ordered_json& list(const ordered_json& object, const std::string& key);

/// UTF-8 without what neither XML nor HTML may hold: control characters are dropped, broken bytes replaced.
[[nodiscard]] std::string clean(std::string_view bytes);
/// For text and for attributes in quotes, of HTML and of XML; cleaned.
[[nodiscard]] std::string escaped(std::string_view raw);
/// escaped(text(...)).
[[nodiscard]] std::string escaped(const ordered_json& object, const std::string& key);

/// 1234567 as "1,234,567".
[[nodiscard]] std::string count_text(double count);
/// "1 row", "2 rows".
[[nodiscard]] std::string count_of(std::size_t count, const std::string& thing);
/// With so many digits behind the point.
[[nodiscard]] std::string fixed(double value, int digits);
/// Plain text: "<1 ms", "45 ms", "3.2 s", "2 min 05 s".
[[nodiscard]] std::string duration(double seconds);
/// How many floats lie between two finite ones, given as bits; "only the sign of zero differs"; "" where
/// there is nothing to say.
[[nodiscard]] std::string distance(std::uint32_t a, std::uint32_t b);
/// Plain text: "31 %", "<0.1 %", ">999 %", "∞".
[[nodiscard]] std::string percentage(double share);

enum class Kind { matrix, property, planted };

/// A row of any of the three lists.
struct Entry {
    const ordered_json* json;
    Kind kind;
    Status status;           ///< of a planted bug: passed if it was caught
    std::size_t failure = 0; ///< its number among the failures, from 1; 0: it is none
    std::string anchor() const { return "failure-" + std::to_string(failure); }
};

[[nodiscard]] bool is_bad(Status status);

/// All results together.
struct Gathered {
    std::vector<Entry> matrix;
    std::vector<Entry> properties;
    std::vector<Entry> planted;
    std::vector<const Entry*> failures;  ///< in this order
    std::array<std::size_t, 5> counts{}; ///< of matrix and properties, by Status
    double seconds = 0.0;

    [[nodiscard]] std::size_t count(Status status) const {
        return counts[static_cast<std::size_t>(status)];
    }
    [[nodiscard]] std::size_t rows() const { return matrix.size() + properties.size(); }
    [[nodiscard]] std::size_t caught() const;
};

/// Points into `results`, which must outlive it.
[[nodiscard]] Gathered gather(const std::vector<ordered_json>& results);
[[nodiscard]] std::string verdict(const Gathered& all);
/// The status it stands for as a whole.
[[nodiscard]] Status overall(const Gathered& all);

/// "sharded · in_process · 3 workers · ...", plain text.
[[nodiscard]] std::string title(const Entry& entry);
/// "step 3, phase residual, residual of rank 1, tensor wq, index 5 (coordinate 5)", plain text.
[[nodiscard]] std::string place(const ordered_json& first);
/// Why a row that is no plain failure did not pass, plain text; else "".
[[nodiscard]] std::string explanation(const Entry& entry);

/// "passed": the class of CSS.
[[nodiscard]] std::string class_of(Status status);
/// A symbol and the word: colour is never all that tells.
[[nodiscard]] std::string badge(const Entry& entry);
[[nodiscard]] std::string symbol(Status status);

/// The contents of the element <style>.
[[nodiscard]] const char* style();
/// The shrunk problem as a grid: columns are coordinates, bands are ranks.
[[nodiscard]] std::string drawing(const ordered_json& drawing, const ordered_json& first);
/// What is known of a failure: message, first divergence, neighbourhood, drawing, command, trace.
[[nodiscard]] std::string failure_body(const Entry& entry);

[[nodiscard]] std::string heat_maps(const Gathered& all);
[[nodiscard]] std::string property_tables(const Gathered& all);
[[nodiscard]] std::string planted_table(const Gathered& all);
[[nodiscard]] std::string slowest_table(const Gathered& all);
[[nodiscard]] std::string row_tables(const Gathered& all);

/// The settings of a row of the matrix, in its order: what is not said of every row of every system.
[[nodiscard]] std::vector<std::string> settings_of(const nlohmann::ordered_json& row);

} // namespace scape::report::page
