#pragma once

#include <string>
#include <vector>

namespace truestep::report {

/// Prints all tables: columns as wide as their widest cell, numbers to the right.
class Table {
  public:
    struct Column {
        std::string title;
        bool right = false;
    };

    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

    /// Adds a row with at most as many cells as there are columns; missing ones are empty.
    void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

    /// The title line and the rows, each line beginning with `indent` and ending with a line feed.
    [[nodiscard]] std::string text(const std::string& indent = "") const;

  private:
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

/// A share as a percentage: 0.123 as "12.3".
[[nodiscard]] std::string percent(double share);
/// The worst share of a limit among the values within theirs; ">100" if one exceeds it.
[[nodiscard]] std::string percent_of_limit(double share, bool exceeded);
/// A distance in ULPs as a table shows it.
[[nodiscard]] std::string ulps_text(double ulps);

} // namespace truestep::report
