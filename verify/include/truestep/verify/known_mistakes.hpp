#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <truestep/verify/verdict.hpp>

/// Which of a system's known mistakes explains the values of a run, within rounding. The planted mistakes
/// of the gate are tried bit for bit; these are found in code of any arithmetic, too.
namespace truestep::verify {

/// Known mistakes under trial: each makes values, which are held against the recorded and the right ones.
class KnownMistakes {
  public:
    KnownMistakes(const std::vector<std::string>& names, int ranks, const Words& words = {});

    static constexpr int all_ranks = -1;

    /// One recorded vector of a rank, or of all ranks together. `BoundedValues`: of BoundedIn.
    template <class BoundedValues>
    void add(std::size_t mistake, int rank, const std::vector<float>& recorded, const BoundedValues& right,
             const BoundedValues& made) {
        for (Index i = 0; i < right.size(); ++i)
            add(tried_[mistake], rank, static_cast<double>(recorded[static_cast<std::size_t>(i)]),
                {right[i].value(), rel_slack * right[i].error()},
                {made[i].value(), rel_slack * made[i].error()});
    }

    /// The mistake that explains most of this step, with those that explain as much; "" where none explains
    /// nearly all. `later`: the same of the steps after it, by which those are told apart.
    [[nodiscard]] std::string line(Index step, const KnownMistakes& later) const;

  private:
    struct Fit {
        Index wrong = 0;     ///< recorded values beyond the limit of the right ones
        Index explained = 0; ///< of those, which the mistake makes
        Index spoilt = 0;    ///< recorded values that are right, and would not be with the mistake
        int rank = all_ranks;

        [[nodiscard]] Index worth() const { return explained - spoilt; }
        /// One of ten may be due to something else.
        [[nodiscard]] bool fits() const {
            return wrong > 0 && 10 * explained >= 9 * wrong && 10 * spoilt <= explained;
        }
    };
    struct Tried {
        std::string name;
        Fit all;
        std::vector<Fit> alone; ///< by rank: if this one alone made the mistake
    };
    struct Limited {
        double value;
        double limit;
    };

    static void add(Tried& tried, int rank, double recorded, Limited right, Limited made);
    [[nodiscard]] static Fit best_of(const Tried& tried);

    Words words_;
    std::vector<Tried> tried_;
};

} // namespace truestep::verify
