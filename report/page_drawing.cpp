// The shrunk problem as a grid that can be read as a picture: columns are coordinates, grouped by tensor
// and by the rank that owns them, bands are ranks. It is a table, so that it can also be read aloud and
// copied.
#include "page_parts.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace scape::report::page {

namespace {

// The limits of docs/results.md.
constexpr std::size_t most_coordinates = 64;
constexpr std::size_t most_ranks = 16;
/// So many columns have room for numbers; more have signs and shades only.
constexpr std::size_t most_with_numbers = 12;

constexpr std::array<const char*, 5> lanes{"mask", "gradient", "residual", "moment", "parameters"};

std::optional<double> parsed(const std::string& number) {
    double value = 0.0;
    const char* const end = number.data() + number.size();
    const auto result = std::from_chars(number.data(), end, value);
    return result.ec == std::errc() && result.ptr == end ? std::optional(value) : std::nullopt;
}

/// Three digits are enough for the eye; the numbers in full are beside it.
std::string shortened(const std::string& number) {
    const std::optional<double> value = parsed(number);
    if (!value || number.size() <= 6)
        return number;
    std::array<char, 32> buffer{};
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), *value, std::chars_format::general, 3)
            .ptr;
    return {buffer.data(), end};
}

/// What stands beneath a wrong value: the right one, or how far it is where three digits do not tell them
/// apart.
std::string beneath(const std::string& actual, const std::string& expected) {
    if (shortened(actual) != shortened(expected))
        return shortened(expected);
    const auto a = parsed(actual);
    const auto b = parsed(expected);
    constexpr auto greatest = static_cast<double>(std::numeric_limits<float>::max());
    if (!a || !b || !(std::fabs(*a) <= greatest) || !(std::fabs(*b) <= greatest))
        return expected;
    const std::string apart = distance(std::bit_cast<std::uint32_t>(static_cast<float>(*a)),
                                       std::bit_cast<std::uint32_t>(static_cast<float>(*b)));
    return apart.ends_with("ULP") ? apart : expected;
}

struct Column {
    std::string tensor; ///< "" between tensors
    std::int64_t index = 0;
    bool always_dense = false;
    std::string owner;
    bool tensor_begins = false;
    bool owner_begins = false;
};

/// A whole number between 0 and `limit`, whatever the JSON holds.
std::size_t bounded(const ordered_json& object, const std::string& key, std::size_t limit) {
    return static_cast<std::size_t>(std::clamp(number(object, key), 0.0, static_cast<double>(limit)));
}

std::string element_text(const ordered_json& values, std::size_t i) {
    if (values.is_string()) {
        const std::string& bits = values.get_ref<const std::string&>();
        return i < bits.size() ? std::string(1, bits[i]) : std::string();
    }
    if (!values.is_array() || i >= values.size())
        return {};
    return plain(values[i]);
}

class Drawing {
  public:
    Drawing(const ordered_json& drawing, const ordered_json& first)
        : drawing_(drawing), ranks_(list(drawing, "ranks")),
          columns_(bounded(drawing, "size", most_coordinates)),
          here_(at(first, "coordinate").is_number() ? number(first, "coordinate") : -1.0) {
        for (const ordered_json& tensor : list(drawing, "tensors")) {
            const std::size_t begin = bounded(tensor, "begin", columns_.size());
            for (std::size_t i = begin; i < bounded(tensor, "end", columns_.size()); ++i) {
                columns_[i].tensor = page::text(tensor, "name");
                columns_[i].index = static_cast<std::int64_t>(i - begin);
                columns_[i].always_dense = at(tensor, "always_dense") == true;
                columns_[i].tensor_begins = i == begin;
            }
        }
        for (const ordered_json& segment : list(drawing, "segments"))
            for (std::size_t i = bounded(segment, "begin", columns_.size());
                 i < bounded(segment, "end", columns_.size()); ++i)
                columns_[i].owner = page::text(segment, "owner");
        for (std::size_t i = 0; i < columns_.size(); ++i)
            columns_[i].owner_begins = i == 0 || columns_[i].owner != columns_[i - 1].owner;
        if (!columns_.empty())
            columns_.front().tensor_begins = true;
    }

    [[nodiscard]] bool any() const {
        return !columns_.empty() && !ranks_.empty() && ranks_.size() <= most_ranks;
    }

    [[nodiscard]] std::string text() const {
        const bool numbers = columns_.size() <= most_with_numbers;
        // In em: the widths are fixed, so that long names of tensors cannot pull the columns apart.
        const double column = numbers ? 8.0 : 2.0;
        const std::string width = fixed(7.0 + column * static_cast<double>(columns_.size()), 1);
        std::string html = "<figure class=\"drawing\"><div class=\"wide\" tabindex=\"0\" role=\"region\" "
                           "aria-label=\"The shrunk problem\"><table class=\"grid";
        html += std::string(numbers ? "" : " dense") + "\" style=\"width:" + width + "em\"><caption>" +
                "The shrunk problem after step " + escaped(drawing_, "step") +
                "</caption><colgroup><col style=\"width:7em\"><col span=\"" +
                std::to_string(columns_.size()) + "\" style=\"width:" + fixed(column, 1) +
                "em\"></colgroup><thead>" + head() + "</thead>";
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
            html += band(rank, numbers);
        return html + "</table></div>" + legend(numbers) + "</figure>" + all_numbers();
    }

  private:
    [[nodiscard]] std::string edge(std::size_t i) const {
        return columns_[i].owner_begins ? " owner-edge" : columns_[i].tensor_begins ? " tensor-edge" : "";
    }

    /// One header cell for each run of columns; `begins` says where one starts.
    template <class Begins, class Label>
    [[nodiscard]] std::string head_row(const std::string& what, Begins begins, Label label) const {
        std::string html = "<tr><th scope=\"row\">" + what + "</th>";
        for (std::size_t i = 0; i < columns_.size();) {
            std::size_t end = i + 1;
            while (end < columns_.size() && !begins(columns_[end]))
                ++end;
            const std::string name = escaped(label(columns_[i]));
            html += "<th scope=\"colgroup\" class=\"group" + edge(i) + "\" colspan=\"" +
                    std::to_string(end - i) + "\" title=\"" + name + "\"><span>" + name + "</span></th>";
            i = end;
        }
        return html + "</tr>";
    }

    [[nodiscard]] std::string head() const {
        std::string html = head_row(
            "owner", [](const Column& column) { return column.owner_begins; },
            [](const Column& column) { return column.owner.empty() ? "nobody" : "rank " + column.owner; });
        html += head_row(
            "tensor", [](const Column& column) { return column.tensor_begins; },
            [](const Column& column) {
                return column.tensor + (column.always_dense ? " (always dense)" : "");
            });
        html += "<tr><th scope=\"row\">coordinate</th>";
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            const bool here = static_cast<double>(i) == here_;
            html += "<th scope=\"col\" class=\"coordinate" + edge(i) + (here ? " here" : "") + "\">" +
                    std::to_string(i) + (here ? "<span class=\"sr\"> (first divergence)</span>" : "") +
                    "</th>";
        }
        return html + "</tr>";
    }

    [[nodiscard]] std::string band(std::size_t rank, bool numbers) const {
        const ordered_json& values = ranks_[rank];
        std::string html = "<tbody><tr class=\"rank\"><th scope=\"rowgroup\" colspan=\"" +
                           std::to_string(columns_.size() + 1) + "\"><span>rank " + std::to_string(rank) +
                           "</span></th></tr>";
        for (const char* lane : lanes) {
            if (at(values, lane).is_null())
                continue;
            html += std::string("<tr><th scope=\"row\">") + lane + "</th>";
            const double greatest = greatest_of(lane);
            for (std::size_t i = 0; i < columns_.size(); ++i)
                html += cell(rank, lane, i, greatest, numbers);
            html += "</tr>";
        }
        return html + "</tbody>";
    }

    [[nodiscard]] double greatest_of(const char* lane) const {
        double greatest = 0.0;
        for (const ordered_json& rank : ranks_)
            for (std::size_t i = 0; i < columns_.size(); ++i)
                if (const auto value = parsed(element_text(at(rank, lane), i));
                    value && std::isfinite(*value))
                    greatest = std::max(greatest, std::fabs(*value));
        return greatest;
    }

    /// What the reference has there, if that is something else; "" if it is the same or not known.
    [[nodiscard]] std::string other(std::size_t rank, const char* lane, std::size_t i) const {
        const std::string expected = element_text(at(at(ranks_[rank], "expected"), lane), i);
        return expected == element_text(at(ranks_[rank], lane), i) ? std::string() : expected;
    }

    [[nodiscard]] std::string cell(std::size_t rank, const char* lane, std::size_t i, double greatest,
                                   bool numbers) const {
        const std::string actual = element_text(at(ranks_[rank], lane), i);
        const std::string expected = other(rank, lane, i);
        const bool is_mask = std::string_view(lane) == "mask";
        const std::optional<double> value = parsed(actual);
        std::string kind = is_mask ? (actual == "1" ? "on" : "off") : shade(value, greatest);
        kind += edge(i) + (expected.empty() ? "" : " wrong");
        std::string title = std::string(lane) + " of rank " + std::to_string(rank) + ", " +
                            columns_[i].tensor + "[" + std::to_string(columns_[i].index) + "]: " + actual;
        if (!expected.empty())
            title += ", expected " + expected;
        std::string shown = is_mask ? escaped(actual) : numbers ? escaped(shortened(actual)) : sign(value);
        if (!expected.empty())
            shown += numbers ? "<small>≠ " + escaped(beneath(actual, expected)) + "</small>" : "<b>≠</b>";
        return "<td class=\"" + kind + "\" title=\"" + escaped(title) + "\">" + shown + "</td>";
    }

    /// p for plus, m for minus, and how large beside the largest of the lane.
    [[nodiscard]] static std::string shade(std::optional<double> value, double greatest) {
        if (!value || !std::isfinite(*value))
            return "odd";
        if (*value == 0.0 || greatest == 0.0)
            return "zero";
        const double share = std::fabs(*value) / greatest;
        return (*value > 0.0 ? "p" : "m") + fixed(std::clamp(std::ceil(4.0 * share), 1.0, 4.0), 0);
    }

    [[nodiscard]] static std::string sign(std::optional<double> value) {
        if (!value || std::isnan(*value))
            return "N";
        if (std::isinf(*value))
            return "∞";
        return *value > 0.0 ? "+" : *value < 0.0 ? "−" : "0";
    }

    [[nodiscard]] static std::string legend(bool numbers) {
        return std::string(
                   "<figcaption><span><span class=\"key on\">1</span> selected by the mask</span>") +
               "<span><span class=\"key p3\">+</span> above zero</span><span><span class=\"key "
               "m3\">−</span> "
               "below</span><span>stronger: larger, within its kind of value</span><span><span class=\"key "
               "wrong\">≠</span> differs from the reference" +
               (numbers ? ", whose value stands beneath" : "; its value is in the numbers") +
               "</span></figcaption>";
    }

    [[nodiscard]] std::string all_numbers() const {
        std::string html =
            "<details><summary>The numbers in full</summary><div class=\"wide\" tabindex=\"0\" "
            "role=\"region\" aria-label=\"The numbers of the shrunk problem\"><table "
            "class=\"numbers\"><caption class=\"sr\">Every value of the shrunk problem</caption>"
            "<thead><tr><th scope=\"col\">rank</th><th scope=\"col\">coordinate</th>"
            "<th scope=\"col\">tensor</th>";
        for (const char* lane : lanes)
            html += std::string("<th scope=\"col\">") + lane + "</th>";
        html += "</tr></thead><tbody>";
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
            for (std::size_t i = 0; i < columns_.size(); ++i) {
                html += "<tr><th scope=\"row\">" + std::to_string(rank) + "</th><td>" + std::to_string(i) +
                        "</td><td>" + escaped(columns_[i].tensor) + "[" +
                        std::to_string(columns_[i].index) + "]</td>";
                for (const char* lane : lanes) {
                    const std::string expected = other(rank, lane, i);
                    html += (expected.empty() ? "<td>" : "<td class=\"wrong\">") +
                            escaped(element_text(at(ranks_[rank], lane), i)) +
                            (expected.empty() ? "" : "<small>≠ " + escaped(expected) + "</small>") +
                            "</td>";
                }
                html += "</tr>";
            }
        return html + "</tbody></table></div></details>";
    }

    const ordered_json& drawing_;
    const ordered_json& ranks_;
    std::vector<Column> columns_;
    double here_;
};

} // namespace

std::string drawing(const ordered_json& drawing, const ordered_json& first) {
    const Drawing grid(drawing, first);
    return grid.any() ? grid.text() : std::string();
}

} // namespace scape::report::page
