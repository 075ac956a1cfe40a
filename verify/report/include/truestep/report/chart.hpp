#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

/// Drawings, as SVG without scripts: what all of them are made of, and curves over two axes.
namespace truestep::report::page {

/// A length in a drawing: "12.5".
[[nodiscard]] std::string px(double value);
/// With at most so many digits that count: "0.123", "1e+04".
[[nodiscard]] std::string rounded(double value, int digits);

/// A drawing in a page, whose style it has. It is as wide as there is room; `label` is for those who cannot
/// see it.
[[nodiscard]] std::string drawing_in_page(double width, double height, const std::string& label,
                                          const std::string& content);
/// A drawing that is a file of its own, with its ground and its style. `style`: what it needs besides.
[[nodiscard]] std::string drawing_alone(double width, double height, const std::string& label,
                                        const std::string& content, const std::string& style = "");

/// `anchor` is "start", "middle" or "end"; `words` is plain text.
[[nodiscard]] std::string label(const std::string& look, double x, double y, const std::string& anchor,
                                const std::string& words);
/// "" where there is nothing to draw.
[[nodiscard]] std::string path(const std::string& look, const std::string& d);
/// The classes of the i-th line: its colour, and its dashes, for colour is never all that tells.
[[nodiscard]] std::string line_look(std::size_t i);

/// In their order, but at least `gap` apart and within these edges: where labels of lines that lie close
/// go.
[[nodiscard]] std::vector<double> apart(const std::vector<double>& places, double gap, double top,
                                        double bottom);
/// No longer than so many characters; what is left out is the end.
[[nodiscard]] std::string clipped(const std::string& name, std::size_t most);

/// 1, 2 or 5 times a power of ten: the least of which `parts` make the whole. 1 for nothing.
[[nodiscard]] double round_part(double whole, double parts);

struct Axis {
    std::string name{};
    bool logarithmic = false;
    std::function<std::string(double)> text = px; ///< of its ticks
    double least = std::numeric_limits<double>::max();
    double greatest = std::numeric_limits<double>::lowest();
    std::vector<double> ticks = {};

    [[nodiscard]] bool has_place(double value) const;
    /// Grows, so that the value has a place on it.
    void include(double value);
    /// Sets ticks at round values: on a line about five, else powers of ten, and 2 and 5 of each where
    /// there are few. `to_ticks`: a logarithmic axis grows, so that it ends at ticks.
    void divide(bool to_ticks = false);
    /// From 0 to 1.
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

    /// Rules across, ticks and names. `grid`: rules upwards, too.
    [[nodiscard]] std::string axes(bool grid = false) const;
    /// Spots without a place are gaps; one that stands alone is a dot.
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
