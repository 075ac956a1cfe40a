// Synthetic gradients and parameters, with the same bits on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/problem/layout.hpp>

namespace truestep::problem {

/// Classes of gradients. Every value follows from (seed, rank, step, index) alone, so that any rank can
/// make any slice; all are made from whole numbers and powers of two, so that every machine makes the same
/// bits.
enum class DataClass {
    normal,    ///< near to a normal distribution, half of it shared by all ranks, scales differing by
               ///< coordinate
    dyadic,    ///< few bits, so that sums over ranks are exact
    ties,      ///< two magnitudes and zeros, both signs
    sparse,    ///< normal, nine of ten are zero
    subnormal, ///< normal, scaled down to where fp32 numbers lose bits
    wide,      ///< normal, scales from 2^-60 to 2^40
    zeros,     ///< zeros of both signs, and now and then something small
    limit,     ///< magnitudes up to 2^56, the greatest that a gradient may have
    once,      ///< normal up to step 1, then zeros: moments decay to nothing
};

[[nodiscard]] std::string name(DataClass kind);
[[nodiscard]] DataClass parse_data_class(const std::string& text);
/// All their names: "normal, dyadic, ...".
[[nodiscard]] std::string data_class_names();

/// Fills `values` with the coordinates from `first` on.
void fill_gradient(std::span<float> values, DataClass kind, std::uint64_t seed, int rank, Index step,
                   Index first = 0);
/// One coordinate of a gradient.
[[nodiscard]] float gradient_value(DataClass kind, std::uint64_t seed, int rank, Index step, Index index);
/// The gradient of a whole model.
[[nodiscard]] std::vector<float> gradient(DataClass kind, std::uint64_t seed, int rank, Index step,
                                          Index size);
[[nodiscard]] float initial_parameter(DataClass kind, std::uint64_t seed, Index index);
/// The parameters of a whole model.
[[nodiscard]] std::vector<float> initial_parameters(DataClass kind, std::uint64_t seed, Index size);

} // namespace truestep::problem
