#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/problem/layout.hpp>
#include <truestep/verify/comparator.hpp>

/// Plain data that a checker gathers of a run in addition to its verdict, for a page to draw.
namespace truestep::verify {

/// A number for each step. None means that it was not recorded, which is not zero.
struct CurveLine {
    std::string name; ///< "rank 0"
    std::vector<std::optional<double>> values;
};

struct Curve {
    std::string name; ///< "residual norm"
    std::string says; ///< its description, one sentence
    std::vector<CurveLine> lines;
};

/// How many values of one kind of result differ, by step and tensor. Neighbours share a cell if
/// there are more than fit on a page, so that its size does not grow with the run's.
class DifferenceMap {
  public:
    static constexpr Index most_columns = 48;
    static constexpr Index most_rows = 32;

    struct Cell {
        Index compared = 0; ///< 0: nothing was compared
        Index wrong = 0;
    };

    DifferenceMap(std::string phase, std::string result, Index steps, const problem::Layout& layout);

    /// `again` means that the values are already counted, and were also compared with another
    /// rank's.
    void add(Index step, const Comparison& comparison, bool again = false);

    [[nodiscard]] const std::string& result() const { return result_; }
    [[nodiscard]] nlohmann::ordered_json json() const;
    [[nodiscard]] const Cell& at(Index column, Index row) const {
        return cells_[static_cast<std::size_t>((row * columns_) + column)];
    }
    [[nodiscard]] Index columns() const { return columns_; }
    [[nodiscard]] Index rows() const { return static_cast<Index>(rows_.size()); }

  private:
    struct Row {
        std::string name; ///< "wq", "wq to wv"
        Index begin = 0;  ///< of its coordinates
        Index end = 0;
    };

    std::string phase_;
    std::string result_;
    Index steps_;
    Index columns_;
    std::vector<Row> rows_;
    std::vector<Cell> cells_; ///< row after row
};

struct RunPlots {
    std::vector<Curve> curves;
    std::vector<DifferenceMap> maps;
};

/// {"curves": [...], "maps": [...]}; what was not recorded is null.
[[nodiscard]] nlohmann::ordered_json json(const RunPlots& seen);

} // namespace truestep::verify
