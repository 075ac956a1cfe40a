/// Which reduction explains a result, with the error that any order of addition may make.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/problem/layout.hpp>

namespace truestep::verify::collectives {

using problem::Index;

enum class Kind : std::uint8_t { floating, whole, natural, boolean };

/// How the values of a tensor stand in memory, and how they round.
struct Type {
    std::string_view name;
    std::size_t size;
    Kind kind;
    double unit;  ///< of rounding: half the distance from 1 to the next
    double least; ///< above zero
    double most;
};

/// Null: a type whose arithmetic is not known here. A complex value counts as two.
[[nodiscard]] const Type* find_type(std::string_view name);

enum class Op : std::uint8_t { sum, mean, product, min, max, band, bor, bxor };
constexpr std::size_t op_count = 8;
[[nodiscard]] std::string_view name(Op op); ///< as PyTorch says: SUM, AVG
[[nodiscard]] std::optional<Op> find_op(std::string_view name);

/// What came of one reduction if it were that one.
struct Outcome {
    Index wrong = 0;
    Index first = -1; ///< of the values: which is wrong first
    double expected = 0.0;
    double bound = 0.0;
    double found = 0.0;
};

struct Explanation {
    Index values = 0;
    std::array<Outcome, op_count> of{};
    /// All are the sum times this, to rounding, where no reduction explains them and there are enough of
    /// them to tell.
    std::optional<double> factor;

    [[nodiscard]] bool holds(Op op) const { return of[static_cast<std::size_t>(op)].wrong == 0; }
    [[nodiscard]] bool any() const;
    /// The one that explains the most values.
    [[nodiscard]] Op closest() const;
};

/// One rank's values each in `inputs`, all as long as `output`. The bound is the running error bound of
/// adding in this type in any order, in this precision or a better one, and of dividing before or after.
[[nodiscard]] Explanation explain(const Type& type, const std::vector<std::span<const std::byte>>& inputs,
                                  std::span<const std::byte> output);

/// One value of a type, for a report.
[[nodiscard]] double value_at(const Type& type, std::span<const std::byte> values, Index at);

} // namespace truestep::verify::collectives
