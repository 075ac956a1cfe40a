#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

/// Drawings as SVG without scripts: common elements, and curves over two axes.
namespace truestep::report::page {

/// A length in a drawing: "12.5".
[[nodiscard]] std::string px(double value);
/// A number with at most this many significant digits: "0.123", "1e+04".
[[nodiscard]] std::string rounded(double value, int digits);

/// A drawing within a page, which provides the style. It fills the available width; `label` is for
/// people who cannot see it.
[[nodiscard]] std::string drawing_in_page(double width, double height, const std::string& label,
                                          const std::string& content);
/// A drawing in a separate file, with its own background and style. `style` is added to it.
[[nodiscard]] std::string drawing_alone(double width, double height, const std::string& label,
                                        const std::string& content, const std::string& style = "");

/// `anchor` is "start", "middle" or "end"; `words` is plain text.
[[nodiscard]] std::string label(const std::string& look, double x, double y, const std::string& anchor,
                                const std::string& words);
/// A path; "" if there is nothing to draw.
[[nodiscard]] std::string path(const std::string& look, const std::string& d);
/// The classes of the i-th line: its colour and its dashes, because colour must never be the only
/// distinction.
[[nodiscard]] std::string line_look(std::size_t i);

/// The places in their order, but at least `gap` apart and within these edges: for labels of lines
/// that are close together.
[[nodiscard]] std::vector<double> apart(const std::vector<double>& places, double gap, double top,
                                        double bottom);
/// The name without its end, if it is longer than `most` characters.
[[nodiscard]] std::string clipped(const std::string& name, std::size_t most);

/// The least of 1, 2 or 5 times a power of ten such that at most `parts` of it make the whole. 1
/// for nothing.
[[nodiscard]] double round_part(double whole, double parts);

struct Axis {
    std::string name{};
    bool logarithmic = false;
    std::function<std::string(double)> text = px; ///< of its ticks
    double least = std::numeric_limits<double>::max();
    double greatest = std::numeric_limits<double>::lowest();
    std::vector<double> ticks = {};

    [[nodiscard]] bool has_place(double value) const;
    /// Extends the axis to include the value.
    void include(double value);
    /// Sets ticks at round values: about five on a linear axis, else powers of ten, with 2 and 5 of
    /// each if there are few. `to_ticks` extends a logarithmic axis so that it ends at ticks.
    void divide(bool to_ticks = false);
    /// The position of a value, from 0 to 1.
    [[nodiscard]] double share(double value) const;

  private:
    [[nodiscard]] std::vector<double> powers() const;
};

class Chart {
  public:
    struct Box {
        double left, top, width, height;
        [[nodiscard]] double right() const { return left + width; }
        [[nodiscard]] double bottom() const { return top + height; }
    };
    struct Spot {
        double x, y;
    };

    Chart(Box box, Axis x, Axis y) : box_(box), x_(std::move(x)), y_(std::move(y)) {}

    [[nodiscard]] double x(double value) const { return box_.left + x_.share(value) * box_.width; }
    [[nodiscard]] double y(double value) const { return box_.bottom() - y_.share(value) * box_.height; }
    [[nodiscard]] bool has_place(Spot spot) const { return x_.has_place(spot.x) && y_.has_place(spot.y); }

    /// The horizontal rules, ticks and names. `grid` adds vertical rules.
    [[nodiscard]] std::string axes(bool grid = false) const;
    /// Spots without a place are gaps; an isolated one is a dot.
    [[nodiscard]] std::string curve(const std::string& kind, const std::string& look,
                                    const std::vector<Spot>& spots) const;
    [[nodiscard]] std::string dots(const std::string& look, const std::vector<Spot>& spots) const;

  private:
    [[nodiscard]] std::string at(Spot spot) const { return px(x(spot.x)) + " " + px(y(spot.y)); }

    Box box_;
    Axis x_;
    Axis y_;
};

} // namespace truestep::report::page
