// Counts differences by step and tensor for the page's map, and writes plots as JSON.
#include <truestep/verify/run_plots.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <truestep/problem/text.hpp>

namespace truestep::verify {

DifferenceMap::DifferenceMap(std::string phase, std::string result, Index steps,
                             const problem::Layout& layout)
    : phase_(std::move(phase)), result_(std::move(result)), steps_(steps),
      columns_(std::min(steps, most_columns)) {
    const auto tensors = static_cast<Index>(layout.tensors().size());
    const Index rows = std::min(tensors, most_rows);
    for (Index row = 0; row < rows; ++row) {
        const auto first = static_cast<std::size_t>(row * tensors / rows);
        const auto last = static_cast<std::size_t>((row + 1) * tensors / rows - 1);
        rows_.push_back(
            {layout.tensors()[first].name + (first == last ? "" : " to " + layout.tensors()[last].name),
             layout.begin(first), layout.end(last)});
    }
    cells_.resize(static_cast<std::size_t>(rows * columns_));
}

void DifferenceMap::add(Index step, const Comparison& comparison, bool again) {
    // Fingerprints cover a whole vector: nothing is known of a tensor.
    if (comparison.expected_size == 0)
        return;
    const Index column = (step - 1) * columns_ / steps_;
    const auto known = static_cast<Index>(comparison.wrong.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        const Row& row = rows_[i];
        Cell& cell = cells_[(i * static_cast<std::size_t>(columns_)) + static_cast<std::size_t>(column)];
        cell.compared += again || comparison.compared == 0 ? 0 : row.end - row.begin;
        // Bits beyond the last coordinate count for its tensor.
        const Index end = i + 1 == rows_.size() ? known : std::min(row.end, known);
        if (row.begin < end)
            cell.wrong +=
                std::count(comparison.wrong.begin() + row.begin, comparison.wrong.begin() + end, true);
    }
}

nlohmann::ordered_json DifferenceMap::json() const {
    using nlohmann::ordered_json;
    ordered_json columns = ordered_json::array();
    for (Index column = 0; column < columns_; ++column) {
        const auto first = [this](Index of) { return ((of * steps_ + columns_ - 1) / columns_) + 1; };
        columns.push_back({{"from", first(column)}, {"to", first(column + 1) - 1}});
    }
    ordered_json rows = ordered_json::array();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        ordered_json cells = ordered_json::array();
        for (Index column = 0; column < columns_; ++column) {
            const Cell& cell = at(column, static_cast<Index>(i));
            cells.push_back(cell.compared == 0 ? ordered_json() : ordered_json{cell.wrong, cell.compared});
        }
        rows.push_back({{"name", rows_[i].name},
                        {"begin", rows_[i].begin},
                        {"end", rows_[i].end},
                        {"cells", std::move(cells)}});
    }
    return {{"phase", phase_}, {"result", result_}, {"columns", columns}, {"rows", rows}};
}

nlohmann::ordered_json json(const RunPlots& seen) {
    using nlohmann::ordered_json;
    ordered_json curves = ordered_json::array();
    for (const Curve& curve : seen.curves) {
        ordered_json lines = ordered_json::array();
        for (const CurveLine& line : curve.lines) {
            ordered_json values = ordered_json::array();
            for (const auto& value : line.values)
                values.push_back(!value                  ? ordered_json()
                                 : std::isfinite(*value) ? ordered_json(*value)
                                                         : ordered_json(shortest(*value)));
            lines.push_back({{"name", line.name}, {"values", std::move(values)}});
        }
        curves.push_back({{"name", curve.name}, {"says", curve.says}, {"lines", std::move(lines)}});
    }
    ordered_json maps = ordered_json::array();
    for (const DifferenceMap& map : seen.maps)
        maps.push_back(map.json());
    return {{"curves", curves}, {"maps", maps}};
}

} // namespace truestep::verify
