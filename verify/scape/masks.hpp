// Recorded masks that differ from the reference's: which may, how close the choice was, and whether they
// are right, but of another step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <truestep/problem/problem.hpp>
#include <truestep/verify/beside.hpp>
#include <truestep/verify/comparator.hpp>
#include <truestep/verify/replicas.hpp>
#include <truestep/verify/scape/results.hpp>
#include <truestep/verify/scape/yardstick.hpp>

namespace truestep::verify::scape {

using Bits = std::vector<std::uint8_t>;

[[nodiscard]] inline bool has_bit(const Bits& mask, Index i) {
    return ((mask[static_cast<std::size_t>(i / 8)] >> static_cast<unsigned>(i % 8)) & 1U) != 0;
}

/// The coordinates at which a recorded mask may differ from the reference's, which was made from `c`. At
/// EXACT none. At the others the scores c carry an error, and a segment's mask may be any that is a right
/// choice of its k for some scores within that error: none that was left out is for certain greater than
/// one that was taken.
template <class T>
[[nodiscard]] Bits tolerable_bits(const problem::Problem& problem, const PerRank<T>& c, double density,
                                  const Bits& recorded);

/// How clear a choice was that a recorded mask made otherwise, in the segment of coordinate `index`: the
/// least score that it should have taken and left, beside the greatest that it took and should have left,
/// and how far they are apart: in ULPs at EXACT, over the bound on their errors elsewhere. One line; ""
/// where it took another number of them, so that no two scores compete. Coordinates are told by their place
/// in the whole model.
template <class T>
[[nodiscard]] std::string margin(const problem::Problem& problem, const PerRank<T>& c,
                                 const Coordinates& right, const Bits& recorded, Index index);

/// Each of the findings on a mask that has gone another way says whether the choice was a close one.
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

/// Of one mask that may be another step's, as of a recorder that looks a moment too early or late: in
/// segments that choose.
struct MaskStepShift {
    Index wrong = 0;       ///< segments in which it is
    Index explained = 0;   ///< of them, those in which it is the other step's
    Index against = 0;     ///< segments, wrong or right, in which it is not the other step's
    Index coordinates = 0; ///< that are wrong in those that are explained

    /// It is the other step's all over: in one segment it may be so by chance.
    [[nodiscard]] bool shifted() const { return wrong > 0 && explained == wrong && against == 0; }
    /// Of another piece.
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

/// As bits, where the trace has them.
struct RecordedMasks {
    const std::optional<Bits>& used;
    const std::optional<Bits>& next;
    const std::optional<Bits>& used_before; ///< by the step before
};

/// Of one step; `used_as_next` holds the mask that it used against the one that it had to make.
[[nodiscard]] MaskStepShifts mask_step_shifts(const problem::Problem& problem,
                                              const RecordedMasks& recorded, const Comparison& of_used,
                                              const Comparison& of_next,
                                              const std::function<Comparison()>& used_as_next);

} // namespace truestep::verify::scape
