#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <truestep/training/curve.hpp>

// What pairs of runs say of a candidate (section 31).

namespace truestep::training {

/// How much the difference of one pair scatters where there is nothing to find. Measured before any run of
/// the candidate, on the base line alone: whoever takes it from the pairs that are judged finds too much
/// (those that happen to agree are called certain).
struct Sigma {
    double of_difference = 0;
    std::size_t from = 0; ///< runs of the base line, or pairs of them
    std::string how;      ///< "16 seeds"
};

/// From runs of the base line with different seeds, as if a pair had nothing in common: sqrt(2) times their
/// deviation. Never too small for a candidate that scatters as the base line does.
[[nodiscard]] Sigma sigma_of_seeds(std::span<const Curve> base);
/// From pairs of the base line and itself, of one seed each, that differ in what must not matter (which
/// rank has which part of a batch, say): smaller, where a seed says much about where a run ends.
[[nodiscard]] Sigma sigma_of_twins(std::span<const Curve> base, std::span<const Curve> twins);

enum class Outcome {
    same,       ///< the difference is shown to lie within the margin
    worse,      ///< it is shown to be above 0, and not shown to lie within the margin
    better,     ///< below 0, the same
    undecided,  ///< none of these
    mistrusted, ///< what was run cannot say anything
};
[[nodiscard]] std::string name(Outcome outcome);

struct Verdict {
    Outcome outcome = Outcome::mistrusted;
    double difference = 0;  ///< mean of candidate less base line, nats a symbol
    double uncertainty = 0; ///< it lies within this much of that
    double z = 0;           ///< difference * sqrt(pairs) / sigma
    double limit = 0;       ///< what |z| is held against
    double margin = 0;
    std::size_t pairs = 0;
    std::size_t needs =
        0; ///< pairs that would decide if the difference stays; 0: it is decided, or no number would
    std::optional<double> steps; ///< "needs so many times the steps"
    std::string why;             ///< what there is to say beside the numbers; of `mistrusted` the reason
};

/// The base line and the candidate, paired by seed, at their ends. `trigram`: the loss that every run has
/// to beat. Throws truestep::Error for runs that are no pairs.
[[nodiscard]] Verdict judge(std::span<const Curve> base, std::span<const Curve> candidate,
                            const Sigma& sigma, double margin, double trigram);

/// "WORSE by 0.102 ± 0.011 nats (4 pairs); needs 1.31 times the steps", plain text.
[[nodiscard]] std::string text(const Verdict& verdict);

} // namespace truestep::training
