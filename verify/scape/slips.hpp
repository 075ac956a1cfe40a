#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <truestep/problem/problem.hpp>
#include <truestep/verify/comparator.hpp>

/// Masks that are right, but of another step: what a recorder does that looks a moment too early or late.
namespace truestep::verify {

/// Of one mask, in segments that choose.
struct MaskSlip {
    Index wrong = 0;       ///< segments in which it is
    Index explained = 0;   ///< of them, those in which it is the other step's
    Index against = 0;     ///< segments, wrong or right, in which it is not the other step's
    Index coordinates = 0; ///< that are wrong in those that are explained

    /// It is the other step's all over: in one segment it may be so by chance.
    [[nodiscard]] bool slipped() const { return wrong > 0 && explained == wrong && against == 0; }
    /// Of another piece.
    void add(const MaskSlip& other) {
        wrong += other.wrong;
        explained += other.explained;
        against += other.against;
        coordinates += other.coordinates;
    }
};

struct MaskSlips {
    MaskSlip early; ///< the mask that a step used is the one that it made for the next
    MaskSlip late;  ///< the mask that it made is the one that it used
};

/// As bits, where the trace has them.
struct RecordedMasks {
    const std::optional<std::vector<std::uint8_t>>& used;
    const std::optional<std::vector<std::uint8_t>>& next;
    const std::optional<std::vector<std::uint8_t>>& used_before; ///< by the step before
};

/// Of one step; `used_as_next` holds the mask that it used against the one that it had to make.
[[nodiscard]] MaskSlips mask_slips(const problem::Problem& problem, const RecordedMasks& recorded,
                                   const Comparison& of_used, const Comparison& of_next,
                                   const std::function<Comparison()>& used_as_next);

} // namespace truestep::verify
