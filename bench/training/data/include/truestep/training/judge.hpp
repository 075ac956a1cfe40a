#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <truestep/training/curve.hpp>

// Judges a candidate by pairs of runs (section 31).

namespace truestep::training {

/// How much the difference of a pair scatters if there is no effect. It is measured before any run
/// of the candidate, on the base line alone. An estimate from the judged pairs would find too many
/// effects, since pairs that happen to agree would look certain.
struct Sigma {
    double of_difference = 0;
    std::size_t from = 0; ///< runs of the base line, or pairs of them
    std::string how;      ///< "16 seeds"
};

/// Sigma from runs of the base line with different seeds, as if the runs of a pair were
/// independent: sqrt(2) times their deviation. It is never too small for a candidate that scatters
/// as the base line does.
[[nodiscard]] Sigma sigma_of_seeds(std::span<const Curve> base);
/// Sigma from pairs of the base line and its twin, of one seed each. They differ only in what must
/// not matter, such as which rank has which part of a batch. It is smaller if the seed largely
/// determines where a run ends.
[[nodiscard]] Sigma sigma_of_twins(std::span<const Curve> base, std::span<const Curve> twins);

enum class Outcome {
    same,       ///< the difference is shown to lie within the margin
    worse,      ///< it is shown to be above 0, and not shown to lie within the margin
    better,     ///< it is shown to be below 0, likewise
    undecided,  ///< none of the above
    mistrusted, ///< the runs cannot prove anything
};
[[nodiscard]] std::string name(Outcome outcome);

struct Verdict {
    Outcome outcome = Outcome::mistrusted;
    double difference = 0;  ///< mean of candidate less base line, nats a symbol
    double uncertainty = 0; ///< half the width of the interval around it
    double z = 0;           ///< difference * sqrt(pairs) / sigma
    double limit = 0;       ///< the limit for |z|
    double margin = 0;
    std::size_t pairs = 0;
    std::size_t needs =
        0; ///< pairs that would decide if the difference stays; 0: it is decided, or no number would
    std::optional<double> steps; ///< "needs so many times the steps"
    std::string why;             ///< remarks; for `mistrusted` the reason
};

/// Compares base line and candidate at their ends, paired by seed. `trigram`: the loss that every
/// run has to beat. Throws truestep::Error if the runs are not pairs.
[[nodiscard]] Verdict judge(std::span<const Curve> base, std::span<const Curve> candidate,
                            const Sigma& sigma, double margin, double trigram);

/// "WORSE by 0.102 ± 0.011 nats (4 pairs); needs 1.31 times the steps", plain text.
[[nodiscard]] std::string text(const Verdict& verdict);

} // namespace truestep::training
