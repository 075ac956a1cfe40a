// Draws the shrunk problem as a readable grid: columns are coordinates, grouped by tensor and by
// the rank that owns them, bands are ranks, and the rows of a band are the lanes that the result
// names; each system chooses its values. It is a table, so that it can also be read aloud and
// copied.
#include "page_rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include <truestep/problem/text.hpp>
#include <truestep/report/chart.hpp>

namespace truestep::report::page {

namespace {

// The limits of docs/results.md.
constexpr std::size_t most_coordinates = 64;
constexpr std::size_t most_ranks = 16;
/// This many columns have room for numbers; more have only signs and shades.
constexpr std::size_t most_with_numbers = 12;

/// Three digits suffice for the eye; the full numbers are beside it.
std::string shortened(const std::string& number) {
    const std::optional<double> value = parse_number<double>(number);
    return !value || number.size() <= 6 ? number : rounded(*value, 3);
}

/// The text below a wrong value: the right one, or the distance if three digits do not distinguish
/// them.
std::string beneath(const std::string& actual, const std::string& expected) {
    if (shortened(actual) != shortened(expected))
        return shortened(expected);
    const auto a = parse_number<double>(actual);
    const auto b = parse_number<double>(expected);
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
    std::string note;
    std::string owner;
    bool tensor_begins = false;
    bool owner_begins = false;
};

/// A whole number between 0 and `limit`, for any JSON.
std::size_t bounded(const ordered_json& object, const std::string& key, std::size_t limit) {
    return static_cast<std::size_t>(std::clamp(number(object, key), 0.0, static_cast<double>(limit)));
}

enum class LaneKind { bits, floats, counts };

struct Lane {
    std::string name;
    std::string title;
    LaneKind kind;
    bool shared;
    const ordered_json& values; ///< a row a rank; one only if it is shared
    const ordered_json& expected;
    double greatest = 0.0; ///< of the finite ones
};

/// The rows of one rank, or of all.
struct Band {
    std::string whose; ///< "rank 1"
    std::size_t row;   ///< of its lanes' values
    std::vector<const Lane*> lanes;
};

/// The text of a lane at a place, or "".
std::string element_text(const ordered_json& rows, std::size_t row, std::size_t i) {
    if (row >= rows.size() || !rows[row].is_array() || i >= rows[row].size())
        return {};
    return plain(rows[row][i]);
}

class Drawing {
  public:
    Drawing(const ordered_json& drawing, const ordered_json& first)
        : drawing_(drawing), columns_(bounded(drawing, "size", most_coordinates)),
          here_(at(first, "coordinate").is_number() ? number(first, "coordinate") : -1.0) {
        for (const ordered_json& tensor : list(drawing, "tensors")) {
            const std::size_t begin = bounded(tensor, "begin", columns_.size());
            for (std::size_t i = begin; i < bounded(tensor, "end", columns_.size()); ++i) {
                columns_[i].tensor = page::text(tensor, "name");
                columns_[i].index = static_cast<std::int64_t>(i - begin);
                columns_[i].note = page::text(tensor, "note");
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
        add_lanes();
        add_bands();
    }

    [[nodiscard]] bool any() const { return !columns_.empty() && !bands_.empty(); }

    [[nodiscard]] std::string text() const {
        const bool numbers = columns_.size() <= most_with_numbers;
        // In em: the widths are fixed, so that long names of tensors cannot pull the columns apart.
        const double column = numbers ? 8.0 : 2.0;
        const std::string width = fixed(7.0 + column * static_cast<double>(columns_.size()), 1);
        std::string table = element("caption", "The shrunk problem after " + escaped(drawing_, "after")) +
                            "<colgroup><col style=\"width:7em\"><col span=\"" +
                            std::to_string(columns_.size()) + "\" style=\"width:" + fixed(column, 1) +
                            "em\"></colgroup>" + element("thead", head());
        for (const Band& band : bands_)
            table += band_text(band, numbers);
        return element("figure.drawing",
                       wide("The shrunk problem", element(numbers ? "table.grid" : "table.grid.dense",
                                                          table, {{"style", "width:" + width + "em"}})) +
                           legend(numbers)) +
               all_numbers();
    }

  private:
    void add_lanes() {
        for (const ordered_json& lane : list(drawing_, "lanes")) {
            const std::string kind = page::text(lane, "kind");
            lanes_.push_back({page::text(lane, "name"), page::text(lane, "title"),
                              kind == "bits"     ? LaneKind::bits
                              : kind == "counts" ? LaneKind::counts
                                                 : LaneKind::floats,
                              at(lane, "shared") == true, list(lane, "values"), list(lane, "expected")});
            for (std::size_t row = 0; row < lanes_.back().values.size(); ++row)
                for (std::size_t i = 0; i < columns_.size(); ++i)
                    if (const auto value = parse_number<double>(element_text(lanes_.back().values, row, i));
                        value && std::isfinite(*value))
                        lanes_.back().greatest = std::max(lanes_.back().greatest, std::fabs(*value));
        }
    }

    /// Adds bands that point into the lanes. Values that all ranks share come first.
    void add_bands() {
        const std::size_t ranks = bounded(drawing_, "ranks", most_ranks + 1);
        if (ranks > most_ranks)
            return;
        Band all{"all ranks", 0, {}};
        Band each{"", 0, {}};
        for (const Lane& lane : lanes_)
            (lane.shared ? all : each).lanes.push_back(&lane);
        if (!all.lanes.empty())
            bands_.push_back(all);
        for (std::size_t rank = 0; rank < ranks && !each.lanes.empty(); ++rank)
            bands_.push_back({"rank " + std::to_string(rank), rank, each.lanes});
    }

    [[nodiscard]] std::string edge(std::size_t i) const {
        return columns_[i].owner_begins ? ".owner-edge" : columns_[i].tensor_begins ? ".tensor-edge" : "";
    }

    /// One header cell for each run of columns; `begins` says where one starts.
    template <class Begins, class Label>
    [[nodiscard]] std::string head_row(const std::string& what, Begins begins, Label label) const {
        std::string html = element("th", what, {{"scope", "row"}});
        for (std::size_t i = 0; i < columns_.size();) {
            std::size_t end = i + 1;
            while (end < columns_.size() && !begins(columns_[end]))
                ++end;
            const std::string name = label(columns_[i]);
            html += element("th.group" + edge(i), element("span", escaped(name)),
                            {{"scope", "colgroup"}, {"colspan", std::to_string(end - i)}, {"title", name}});
            i = end;
        }
        return element("tr", html);
    }

    [[nodiscard]] std::string head() const {
        std::string html;
        if (!list(drawing_, "segments").empty())
            html += head_row(
                "owner", [](const Column& column) { return column.owner_begins; },
                [](const Column& column) {
                    return column.owner.empty() ? "nobody" : "rank " + column.owner;
                });
        html += head_row(
            "tensor", [](const Column& column) { return column.tensor_begins; },
            [](const Column& column) {
                return column.tensor + (column.note.empty() ? "" : " (" + column.note + ")");
            });
        std::string coordinates = element("th", "coordinate", {{"scope", "row"}});
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            const bool here = static_cast<double>(i) == here_;
            coordinates +=
                element("th.coordinate" + edge(i) + (here ? ".here" : ""),
                        std::to_string(i) + (here ? element("span.sr", " (first divergence)") : ""),
                        {{"scope", "col"}});
        }
        return html + element("tr", coordinates);
    }

    [[nodiscard]] std::string band_text(const Band& band, bool numbers) const {
        std::string html = element(
            "tr.rank", element("th", element("span", band.whose),
                               {{"scope", "rowgroup"}, {"colspan", std::to_string(columns_.size() + 1)}}));
        for (const Lane* lane : band.lanes) {
            std::string row = element("th", escaped(lane->name), {{"scope", "row"}});
            for (std::size_t i = 0; i < columns_.size(); ++i)
                row += cell(band, *lane, i, numbers);
            html += element("tr", row);
        }
        return element("tbody", html);
    }

    /// The reference's value, if it differs; "" if it is the same or unknown.
    [[nodiscard]] static std::string other(const Lane& lane, std::size_t row, std::size_t i) {
        const std::string expected = element_text(lane.expected, row, i);
        return expected == element_text(lane.values, row, i) ? std::string() : expected;
    }

    [[nodiscard]] std::string cell(const Band& band, const Lane& lane, std::size_t i, bool numbers) const {
        const std::string actual = element_text(lane.values, band.row, i);
        const std::string expected = other(lane, band.row, i);
        const std::optional<double> value = parse_number<double>(actual);
        std::string look =
            lane.kind == LaneKind::bits ? (actual == "1" ? "on" : "off") : shade(value, lane.greatest);
        look += edge(i) + (expected.empty() ? "" : ".wrong");
        std::string title = lane.name + " of " + band.whose + ", " + columns_[i].tensor + "[" +
                            std::to_string(columns_[i].index) + "]: " + actual;
        if (!expected.empty())
            title += ", expected " + expected;
        std::string shown = shown_value(lane.kind, actual, numbers);
        if (!expected.empty())
            shown += numbers ? "<small>≠ " +
                                   escaped(lane.kind == LaneKind::floats ? beneath(actual, expected)
                                                                         : expected) +
                                   "</small>"
                             : "<b>≠</b>";
        return element("td." + look, shown, {{"title", title}});
    }

    [[nodiscard]] static std::string shown_value(LaneKind kind, const std::string& actual, bool numbers) {
        constexpr std::size_t most_digits = 2; // in a column without room for numbers
        if (kind == LaneKind::bits ||
            (kind == LaneKind::counts && (numbers || actual.size() <= most_digits)))
            return escaped(actual);
        return numbers ? escaped(shortened(actual)) : sign(parse_number<double>(actual));
    }

    /// The shade of a value: p for plus, m for minus, and its size compared with the largest of the
    /// lane.
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

    /// Explains the lanes, then the shades.
    [[nodiscard]] std::string legend(bool numbers) const {
        std::string html = "<figcaption>";
        bool shades = false;
        for (const Lane& lane : lanes_) {
            shades = shades || lane.kind != LaneKind::bits;
            if (!lane.title.empty())
                html += "<span>" +
                        (lane.kind == LaneKind::bits ? std::string("<span class=\"key on\">1</span> ")
                                                     : "<b>" + escaped(lane.name) + "</b> ") +
                        escaped(lane.title) + "</span>";
        }
        if (shades)
            html += "<span><span class=\"key p3\">+</span> above zero</span><span><span class=\"key "
                    "m3\">−</span> below</span><span>stronger: larger, within its kind of value</span>";
        return html + "<span><span class=\"key wrong\">≠</span> differs from the reference" +
               (numbers ? ", whose value stands beneath" : "; its value is in the numbers") +
               "</span></figcaption>";
    }

    [[nodiscard]] std::string all_numbers() const {
        std::vector<HtmlTable::Column> columns{{"of", "head"}, {"coordinate"}, {"tensor"}};
        for (const Lane& lane : lanes_)
            columns.push_back({escaped(lane.name)});
        HtmlTable table("numbers", "Every value of the shrunk problem", columns);
        for (const Band& band : bands_)
            for (std::size_t i = 0; i < columns_.size(); ++i)
                table.row(numbers_row(band, i));
        return folded("The numbers in full", wide("The numbers of the shrunk problem", table.html()));
    }

    [[nodiscard]] std::vector<std::string> numbers_row(const Band& band, std::size_t i) const {
        std::vector<std::string> cells{band.whose, std::to_string(i),
                                       escaped(columns_[i].tensor) + "[" +
                                           std::to_string(columns_[i].index) + "]"};
        for (const Lane& lane : lanes_) {
            const bool here = std::find(band.lanes.begin(), band.lanes.end(), &lane) != band.lanes.end();
            const std::string expected = here ? other(lane, band.row, i) : std::string();
            const std::string actual = here ? escaped(element_text(lane.values, band.row, i)) : "";
            cells.push_back(
                expected.empty()
                    ? actual
                    : element("div.wrong", actual + element("small", "≠ " + escaped(expected))));
        }
        return cells;
    }

    const ordered_json& drawing_;
    std::vector<Column> columns_;
    std::vector<Lane> lanes_;
    std::vector<Band> bands_;
    double here_;
};

} // namespace

std::string drawing(const ordered_json& drawing, const ordered_json& first) {
    const Drawing grid(drawing, first);
    return grid.any() ? grid.text() : std::string();
}

} // namespace truestep::report::page
