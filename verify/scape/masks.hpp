// Recorded masks that differ from the reference's: which may, how close the choice was, and whether
// they are the right masks of another step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <truestep/problem/problem.hpp>
#include <truestep/verify/comparator.hpp>
#include <truestep/verify/compare_with_reference.hpp>
#include <truestep/verify/replicas.hpp>
#include <truestep/verify/scape/results.hpp>
#include <truestep/verify/scape/yardstick.hpp>

namespace truestep::verify::scape {

using Bits = std::vector<std::uint8_t>;

[[nodiscard]] inline bool has_bit(const Bits& mask, Index i) {
    return ((mask[static_cast<std::size_t>(i / 8)] >> static_cast<unsigned>(i % 8)) & 1U) != 0;
}

/// The coordinates at which a recorded mask may differ from the reference's, which was made from
/// `c`. At EXACT there are none. At the other levels the scores c carry an error, and a segment's
/// mask may be any right choice of its k for some scores within that error: none that was left out
/// is certainly greater than one that was taken.
template <class T>
[[nodiscard]] Bits tolerable_bits(const problem::Problem& problem, const PerRank<T>& c, double density,
                                  const Bits& recorded);

/// How clear the choice was that a recorded mask made differently, in the segment of coordinate
/// `index`: the least score that it wrongly left, the greatest that it wrongly took, and their
/// distance, in ULPs at EXACT, relative to the bound on their errors elsewhere. One line; "" if it
/// took another number of coordinates, so that no two scores compete. Coordinates are places in the
/// whole model.
template <class T>
[[nodiscard]] std::string margin(const problem::Problem& problem, const PerRank<T>& c,
                                 const Coordinates& right, const Bits& recorded, Index index);

/// Adds to each finding on a mask that differs whether the choice was a close one.
template <class T>
void tell_margin(std::vector<Finding>& findings, const problem::Problem& problem, const PerRank<T>& c,
                 const Coordinates& right, const Bits& recorded) {
    for (Finding& finding : findings) {
        const std::optional<Index> wrong = finding.comparison.first_wrong();
        if (!wrong || finding.between_ranks)
            continue;
        const std::string told = margin(problem, c, right, recorded, *wrong);
        finding.note += (finding.note.empty() || told.empty() ? "" : "; ") + told;
    }
}

/// Counts how well another step's mask explains a wrong mask, as from a recorder that reads it a
/// moment too early or late. Only sparse segments count.
struct MaskStepShift {
    Index wrong = 0;       ///< wrong segments
    Index explained = 0;   ///< of them, those that equal the other step's mask
    Index against = 0;     ///< segments, wrong or right, that differ from the other step's mask
    Index coordinates = 0; ///< wrong coordinates in the explained segments

    /// All segments equal the other step's mask; in one segment that may be chance.
    [[nodiscard]] bool shifted() const { return wrong > 0 && explained == wrong && against == 0; }
    /// Adds the counts of another piece.
    void add(const MaskStepShift& other) {
        wrong += other.wrong;
        explained += other.explained;
        against += other.against;
        coordinates += other.coordinates;
    }
};

struct MaskStepShifts {
    MaskStepShift early; ///< the mask that a step used is the one that it made for the next
    MaskStepShift late;  ///< the mask that it made is the one that it used
};

/// The recorded masks as bits, if the trace holds them.
struct RecordedMasks {
    const std::optional<Bits>& used;
    const std::optional<Bits>& next;
    const std::optional<Bits>& used_before; ///< by the step before
};

/// The shifts of one step; `used_as_next` compares the mask that it used with the one that it had
/// to make.
[[nodiscard]] MaskStepShifts mask_step_shifts(const problem::Problem& problem,
                                              const RecordedMasks& recorded, const Comparison& of_used,
                                              const Comparison& of_next,
                                              const std::function<Comparison()>& used_as_next);

} // namespace truestep::verify::scape
