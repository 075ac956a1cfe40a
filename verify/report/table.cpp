// Lays out text tables with aligned columns, and formats percentages and ULPs.
#include <truestep/report/table.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>

#include <truestep/problem/text.hpp>

namespace truestep::report {

std::string Table::text(const std::string& indent) const {
    std::vector<std::vector<std::string>> lines{{}};
    for (const Column& column : columns_)
        lines.front().push_back(column.title);
    lines.insert(lines.end(), rows_.begin(), rows_.end());

    std::vector<std::size_t> widths(columns_.size(), 0);
    for (auto& line : lines) {
        line.resize(columns_.size());
        for (std::size_t i = 0; i < columns_.size(); ++i)
            widths[i] = std::max(widths[i], line[i].size());
    }

    std::string result;
    for (const auto& line : lines) {
        std::string text = indent;
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            const std::string padding(widths[i] - line[i].size(), ' ');
            text += (i == 0 ? "" : "  ") + (columns_[i].right ? padding + line[i] : line[i] + padding);
        }
        text.erase(text.find_last_not_of(' ') + 1);
        result += text + "\n";
    }
    return result;
}

std::string percent(double share) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", 100.0 * share);
    return text;
}

std::string percent_of_limit(double share, bool exceeded) {
    return exceeded ? ">100" : percent(share);
}

std::string ulps_text(double ulps) {
    return std::isinf(ulps) ? "not comparable" : shortest(ulps);
}

} // namespace truestep::report
