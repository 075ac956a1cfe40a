#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <truestep/verify/verdict.hpp>

/// Finds the known bug of a system that explains the values of a run within rounding. The gate
/// compares its known bugs bit for bit; these are also found in code of any arithmetic.
namespace truestep::verify {

/// Tries known bugs on the step at which a run first differs from the reference. The steps after it
/// distinguish bugs with the same effect.
class KnownMistakes {
  public:
    /// Each of the known bugs has a `name`. `parted` is the first step at which the run differs.
    template <class KnownBugs>
    KnownMistakes(const KnownBugs& known_bugs, int ranks, Index parted, const Words& words = {})
        : parted_(parted), words_(words) {
        for (const auto& known_bug : known_bugs) {
            Tally none{{}, std::vector<Fit>(static_cast<std::size_t>(ranks))};
            for (int rank = 0; rank < ranks; ++rank)
                none.alone[static_cast<std::size_t>(rank)].rank = rank;
            tried_.push_back({known_bug.name, none, none});
        }
    }

    static constexpr int all_ranks = -1;
    /// The last step to try, out of this many.
    [[nodiscard]] Index last(Index steps) const { return std::min(steps, parted_ + 3); }

    /// Adds one recorded vector of a rank, or of all ranks together, with the right values and
    /// those that the bug makes. `BoundedValues` are vectors of BoundedIn.
    template <class BoundedValues>
    void add(std::size_t known_bug, Index step, int rank, const std::vector<float>& recorded,
             const BoundedValues& right, const BoundedValues& made) {
        Tally& tally = step == parted_ ? tried_[known_bug].here : tried_[known_bug].later;
        for (Index i = 0; i < right.size(); ++i)
            add(tally, rank, static_cast<double>(recorded[static_cast<std::size_t>(i)]),
                {right[i].value(), rel_slack * right[i].error()},
                {made[i].value(), rel_slack * made[i].error()});
    }

    /// The bug that explains most of the step, with those that explain as much; "" if none explains
    /// nearly all.
    [[nodiscard]] std::string line() const;

  private:
    struct Fit {
        Index wrong = 0;     ///< recorded values beyond the limit of the right ones
        Index explained = 0; ///< of those, the values that the bug makes
        Index spoilt = 0;    ///< recorded values that are right, and would be wrong with the bug
        int rank = all_ranks;

        [[nodiscard]] Index worth() const { return explained - spoilt; }
        /// One of ten may have another cause.
        [[nodiscard]] bool fits() const {
            return wrong > 0 && 10 * explained >= 9 * wrong && 10 * spoilt <= explained;
        }
    };
    struct Tally {
        Fit all;
        std::vector<Fit> alone; ///< by rank: if only this rank had the bug

        [[nodiscard]] Fit best() const;
    };
    struct TriedBug {
        std::string name;
        Tally here; ///< at the first step that differs
        Tally later;
    };
    struct Limited {
        double value;
        double limit;
    };

    static void add(Tally& tally, int rank, double recorded, Limited right, Limited made);

    Index parted_;
    Words words_;
    std::vector<TriedBug> tried_;
};

} // namespace truestep::verify
