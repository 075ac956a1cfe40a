// Where a recorded run differs from the reference: steps across, tensors down, a map a result.
#include "runs_parts.hpp"

#include <algorithm>
#include <cmath>

namespace scape::report::page {

namespace {

constexpr double map_width = 360;
constexpr double names_width = 96;
constexpr double row_height = 14;
constexpr double head_height = 16;

/// A name that fits before a row; all of it is in the title.
std::string clipped_name(const std::string& name) {
    constexpr std::size_t most = 15;
    if (name.size() <= most)
        return name;
    // From a whole character on: the end tells tensors apart better than the begin.
    std::size_t begin = name.size() - most + 1;
    while (begin < name.size() && (static_cast<unsigned char>(name[begin]) & 0xc0U) == 0x80U)
        ++begin;
    return "…" + name.substr(begin);
}

double whole(const ordered_json& list_of_two, std::size_t i) {
    return i < list_of_two.size() && list_of_two[i].is_number() ? list_of_two[i].get<double>() : 0.0;
}

class Map {
  public:
    Map(const ordered_json& map, const ordered_json& first)
        : map_(map), first_(first), columns_(list(map, "columns")), rows_(list(map, "rows")),
          cell_((map_width - names_width) / std::max(1.0, static_cast<double>(columns_.size()))),
          of_first_(first.is_object() && text(first, "result") == text(map, "result") &&
                    text(first, "phase") == text(map, "phase")) {
        for (const ordered_json& row : rows_)
            for (const ordered_json& cell : list(row, "cells")) {
                compared_ += cell.is_array() ? whole(cell, 1) : 0.0;
                wrong_ += cell.is_array() ? whole(cell, 0) : 0.0;
            }
    }

    [[nodiscard]] std::string figure() const {
        const std::string name = text(map_, "phase") == text(map_, "result")
                                     ? text(map_, "result")
                                     : text(map_, "phase") + ": " + text(map_, "result");
        std::string html = "<figure class=\"chart\"><h5>" + escaped(name) + "</h5>";
        if (compared_ == 0.0)
            return html + "<p class=\"absent-chart\">not recorded</p></figure>";
        return html + svg() + "<figcaption><span>" +
               (wrong_ == 0.0 ? "no value differs"
                              : count_text(wrong_) + " of " + count_text(compared_) + " values differ") +
               "</span></figcaption></figure>";
    }

  private:
    [[nodiscard]] std::string svg() const {
        const double height = head_height + (row_height * static_cast<double>(rows_.size())) + 4;
        std::string html = svg_begin(map_width, height, "What differs of " + text(map_, "result"));
        html += head();
        for (std::size_t i = 0; i < rows_.size(); ++i)
            html += row(rows_[i], head_height + (row_height * static_cast<double>(i)));
        return html + "</svg>";
    }

    [[nodiscard]] std::string head() const {
        if (columns_.empty())
            return {};
        const auto label = [](double x, const std::string& anchor, const std::string& step) {
            return "<text class=\"tick\" text-anchor=\"" + anchor + "\" x=\"" + px(x) +
                   "\" y=\"11\">step " + escaped(step) + "</text>";
        };
        return label(names_width, "start", text(columns_.front(), "from")) +
               (columns_.size() == 1 ? "" : label(map_width, "end", text(columns_.back(), "to")));
    }

    /// Cells that are right are one ground; only what differs, or is not known, is drawn by itself.
    [[nodiscard]] std::string row(const ordered_json& of, double y) const {
        std::string html = "<text class=\"tick\" text-anchor=\"end\" x=\"" + px(names_width - 5) +
                           "\" y=\"" + px(y + 10) + "\">" + escaped(clipped_name(text(of, "name"))) +
                           "</text><rect class=\"good\" x=\"" + px(names_width) + "\" y=\"" + px(y) +
                           "\" width=\"" + px(map_width - names_width) + "\" height=\"" +
                           px(row_height - 2) + "\"/>";
        const ordered_json& cells = list(of, "cells");
        for (std::size_t column = 0; column < cells.size() && column < columns_.size(); ++column) {
            const ordered_json& cell = cells[column];
            if (!cell.is_array())
                html += rectangle("absent", column, y, "") + title(of, column, "not recorded") + "</rect>";
            else if (whole(cell, 0) > 0.0)
                html += wrong_cell(of, column, y, whole(cell, 0), whole(cell, 1));
            if (of_first_ && holds_first(of, columns_[column]))
                html +=
                    rectangle("first-here", column, y, "") + "<title>the first divergence</title></rect>";
        }
        return html;
    }

    [[nodiscard]] std::string wrong_cell(const ordered_json& of, std::size_t column, double y, double wrong,
                                         double compared) const {
        const double share = std::clamp(wrong / std::max(1.0, compared), 0.0, 1.0);
        // By the square root, so that one value of many can be seen at all.
        const std::string strength = fixed(0.25 + (0.75 * std::sqrt(share)), 2);
        return rectangle("bad", column, y, " fill-opacity=\"" + strength + "\"") +
               title(of, column,
                     count_text(wrong) + " of " + count_text(compared) + " values differ (" +
                         percentage(share) + ")") +
               "</rect>";
    }

    [[nodiscard]] std::string rectangle(const std::string& look, std::size_t column, double y,
                                        const std::string& more) const {
        return "<rect class=\"" + look + "\" x=\"" +
               px(names_width + (cell_ * static_cast<double>(column))) + "\" y=\"" + px(y) + "\" width=\"" +
               px(std::max(1.0, cell_ - (cell_ > 4.0 ? 1.0 : 0.0))) + "\" height=\"" + px(row_height - 2) +
               "\"" + more + ">";
    }

    [[nodiscard]] std::string title(const ordered_json& of, std::size_t column,
                                    const std::string& says) const {
        const std::string from = text(columns_[column], "from");
        const std::string to = text(columns_[column], "to");
        return "<title>step " + escaped(from) + (from == to ? "" : " to " + escaped(to)) + ", " +
               escaped(of, "name") + ": " + escaped(says) + "</title>";
    }

    [[nodiscard]] bool holds_first(const ordered_json& of, const ordered_json& column) const {
        const double step = number(first_, "step");
        const double coordinate =
            at(first_, "coordinate").is_number() ? number(first_, "coordinate") : -1.0;
        return step >= number(column, "from") && step <= number(column, "to") &&
               coordinate >= number(of, "begin") && coordinate < number(of, "end");
    }

    const ordered_json& map_;
    const ordered_json& first_;
    const ordered_json& columns_;
    const ordered_json& rows_;
    double cell_;
    bool of_first_;
    double compared_ = 0.0;
    double wrong_ = 0.0;
};

} // namespace

std::string difference_maps(const ordered_json& run) {
    const ordered_json& first = at(at(run, "failure"), "first");
    std::string html;
    for (const ordered_json& map : list(run, "maps"))
        html += Map(map, first).figure();
    if (html.empty())
        return {};
    return "<h4>What differs, by step and tensor</h4><div class=\"charts\">" + html +
           "</div><p class=\"quiet legend\"><span class=\"key good-key\"></span> nothing differs <span "
           "class=\"key bad-key\"></span> some values do; stronger: more <span class=\"key "
           "absent-key\"></span> not recorded, or no values <span class=\"key first-key\"></span> the "
           "first "
           "divergence</p>";
}

} // namespace scape::report::page
