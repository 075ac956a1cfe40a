// Draws where a recorded run differs from the reference: steps across, tensors down, a map for each
// result.
#include "run_sections.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <truestep/report/chart.hpp>

namespace truestep::report::page {

namespace {

constexpr double map_width = 360;
constexpr double cell_height = 12;
constexpr double row_gap = 2;
constexpr std::size_t most_before_a_row = 15; ///< letters of a name; a longer one is above its row
constexpr double names_before = 96;
constexpr double name_above = 13;
constexpr double head_height = 16;

double whole(const ordered_json& list_of_two, std::size_t i) {
    return i < list_of_two.size() && list_of_two[i].is_number() ? list_of_two[i].get<double>() : 0.0;
}

class Map {
  public:
    Map(const ordered_json& map, const ordered_json& first, std::string step)
        : map_(map), first_(first), step_(std::move(step)), columns_(list(map, "columns")),
          rows_(list(map, "rows")),
          above_(std::ranges::any_of(
              rows_, [](const ordered_json& row) { return text(row, "name").size() > most_before_a_row; })),
          left_(above_ ? 0 : names_before),
          cell_((map_width - left_) / std::max(1.0, static_cast<double>(columns_.size()))),
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
        return element(
            "figure.chart",
            element("h5", escaped(name)) +
                (compared_ == 0.0
                     ? element("p.absent-chart", "not recorded")
                     : svg() + element("figcaption",
                                       element("span", wrong_ == 0.0 ? "no value differs"
                                                                     : count_text(wrong_) + " of " +
                                                                           count_text(compared_) +
                                                                           " values differ"))));
    }

  private:
    [[nodiscard]] std::string svg() const {
        const double row_height = cell_height + row_gap + (above_ ? name_above : 0.0);
        const double height = head_height + (row_height * static_cast<double>(rows_.size())) + 4;
        std::string svg = head();
        for (std::size_t i = 0; i < rows_.size(); ++i)
            svg += row(rows_[i], head_height + (row_height * static_cast<double>(i)));
        return drawing_in_page(map_width, height, "What differs of " + text(map_, "result"), svg);
    }

    [[nodiscard]] std::string head() const {
        if (columns_.empty())
            return {};
        const auto step_label = [this](double x, const std::string& anchor, const std::string& step) {
            return label("tick", x, 11, anchor, step_ + " " + step);
        };
        return step_label(left_, "start", text(columns_.front(), "from")) +
               (columns_.size() == 1 ? "" : step_label(map_width, "end", text(columns_.back(), "to")));
    }

    /// Right cells form one background; only wrong or unknown ones are drawn individually.
    [[nodiscard]] std::string row(const ordered_json& of, double y) const {
        std::string html =
            label("tick", above_ ? 0 : left_ - 5, y + 10, above_ ? "start" : "end", text(of, "name"));
        y += above_ ? name_above : 0.0;
        html += "<rect class=\"good\" x=\"" + px(left_) + "\" y=\"" + px(y) + "\" width=\"" +
                px(map_width - left_) + "\" height=\"" + px(cell_height) + "\"/>";
        const ordered_json& cells = list(of, "cells");
        for (std::size_t column = 0; column < cells.size() && column < columns_.size(); ++column) {
            const ordered_json& cell = cells[column];
            if (!cell.is_array())
                html += rectangle("absent", column, y, title(of, column, "not recorded"));
            else if (whole(cell, 0) > 0.0)
                html += wrong_cell(of, column, y, whole(cell, 0), whole(cell, 1));
            if (of_first_ && holds_first(of, columns_[column]))
                html += rectangle("first-here", column, y, element("title", "the first divergence"));
        }
        return html;
    }

    [[nodiscard]] std::string wrong_cell(const ordered_json& of, std::size_t column, double y, double wrong,
                                         double compared) const {
        const double share = std::clamp(wrong / std::max(1.0, compared), 0.0, 1.0);
        // By the square root, so that one wrong value of many is visible at all.
        const std::string strength = fixed(0.25 + (0.75 * std::sqrt(share)), 2);
        return rectangle("bad", column, y,
                         title(of, column,
                               count_text(wrong) + " of " + count_text(compared) + " values differ (" +
                                   percentage(share) + ")"),
                         " fill-opacity=\"" + strength + "\"");
    }

    [[nodiscard]] std::string rectangle(const std::string& look, std::size_t column, double y,
                                        const std::string& title, const std::string& more = "") const {
        return "<rect class=\"" + look + "\" x=\"" + px(left_ + (cell_ * static_cast<double>(column))) +
               "\" y=\"" + px(y) + "\" width=\"" + px(std::max(1.0, cell_ - (cell_ > 4.0 ? 1.0 : 0.0))) +
               "\" height=\"" + px(cell_height) + "\"" + more + ">" + title + "</rect>";
    }

    [[nodiscard]] std::string title(const ordered_json& of, std::size_t column,
                                    const std::string& says) const {
        const std::string from = text(columns_[column], "from");
        const std::string to = text(columns_[column], "to");
        return element("title", escaped(step_ + " " + from + (from == to ? "" : " to " + to) + ", " +
                                        text(of, "name") + ": " + says));
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
    std::string step_; ///< what the system calls it
    const ordered_json& columns_;
    const ordered_json& rows_;
    bool above_; ///< the names are above their rows
    double left_;
    double cell_;
    bool of_first_;
    double compared_ = 0.0;
    double wrong_ = 0.0;
};

} // namespace

std::string difference_maps(const ordered_json& run) {
    const ordered_json& first = at(at(run, "failure"), "first");
    const std::string step = word_for(run, "step");
    std::string html;
    for (const ordered_json& map : list(run, "maps"))
        html += Map(map, first, step).figure();
    if (html.empty())
        return {};
    return "<h4>What differs, by " + escaped(step) + " and tensor</h4><div class=\"charts\">" + html +
           "</div><p class=\"quiet legend\"><span class=\"key good-key\"></span> nothing differs <span "
           "class=\"key bad-key\"></span> some values do; stronger: more <span class=\"key "
           "absent-key\"></span> not recorded, or no values <span class=\"key first-key\"></span> the "
           "first "
           "divergence</p>";
}

} // namespace truestep::report::page
