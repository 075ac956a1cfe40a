// Tables of floats for the plain ends.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace truestep::properties::mapl::plain {

/// Rows of floats, and the little arithmetic that the plain ends need, so that they share none with the
/// code that they are compared with.
struct Table {
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::vector<float> values{};

    static Table of(std::size_t columns, std::vector<float> values) {
        const std::size_t rows = columns == 0 ? 0 : values.size() / columns;
        return {rows, columns, std::move(values)};
    }
    static Table zeros(std::size_t rows, std::size_t columns) {
        return {rows, columns, std::vector<float>(rows * columns, 0.0F)};
    }
    float& at(std::size_t i, std::size_t j) { return values[i * columns + j]; }
    [[nodiscard]] float at(std::size_t i, std::size_t j) const { return values[i * columns + j]; }
};

inline Table flipped(const Table& a) {
    Table made = Table::zeros(a.columns, a.rows);
    for (std::size_t i = 0; i < a.rows; ++i)
        for (std::size_t j = 0; j < a.columns; ++j)
            made.at(j, i) = a.at(i, j);
    return made;
}

inline Table product(const Table& a, const Table& b) {
    Table made = Table::zeros(a.rows, b.columns);
    for (std::size_t i = 0; i < a.rows; ++i)
        for (std::size_t k = 0; k < a.columns; ++k)
            for (std::size_t j = 0; j < b.columns; ++j)
                made.at(i, j) += a.at(i, k) * b.at(k, j);
    return made;
}

/// x*a + y*b, entry by entry.
inline Table mixed(float x, const Table& a, float y, const Table& b) {
    Table made = a;
    for (std::size_t i = 0; i < made.values.size(); ++i)
        made.values[i] = x * a.values[i] + y * b.values[i];
    return made;
}

inline bool finite(const std::vector<float>& values) {
    for (const float value : values)
        if (!std::isfinite(value))
            return false;
    return true;
}

} // namespace truestep::properties::mapl::plain
