// Runs each known bug from a recorded step, and ranks them by the wrong values they reproduce.
#include <truestep/gate/hypotheses.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

namespace truestep::gate {

namespace {

struct Fit {
    std::int64_t wrong = 0;     ///< values that are not the right ones
    std::int64_t explained = 0; ///< wrong values that the known bug makes, too
    std::int64_t spoilt = 0;    ///< right values that it would make wrong
    int rank = -1;              ///< the only rank with the bug; -1: all have it

    [[nodiscard]] std::int64_t worth() const { return explained - spoilt; }
    /// Explaining a minority of the wrong values counts as no explanation.
    [[nodiscard]] bool fits() const { return wrong > 0 && 2 * explained > wrong && spoilt < explained; }
};

Fit fit_of_vector(const std::vector<std::uint32_t>& recorded, const std::vector<std::uint32_t>& right,
                  const std::vector<std::uint32_t>& hypothesis) {
    Fit result;
    if (right.size() != recorded.size())
        return result; // one of them is not available
    const bool known = hypothesis.size() == recorded.size();
    for (std::size_t at = 0; at < recorded.size(); ++at) {
        const bool wrong = recorded[at] != right[at];
        const bool made = known && recorded[at] == hypothesis[at];
        result.wrong += wrong ? 1 : 0;
        result.explained += wrong && made ? 1 : 0;
        result.spoilt += !wrong && !made ? 1 : 0;
    }
    return result;
}

/// The best fit, with the bug on all ranks or on one.
Fit best_fit(const Hypotheses& given, const SeenBits& right, const SeenBits& hypothesis) {
    const auto ranks = static_cast<std::size_t>(given.ranks);
    Fit all;
    std::vector<Fit> alone(ranks);
    for (std::size_t i = 0; i < given.recorded.size(); ++i) {
        const Fit one = fit_of_vector(given.recorded[i], right[i], hypothesis[i]);
        all.wrong += one.wrong;
        all.explained += one.explained;
        all.spoilt += one.spoilt;
        alone[i % ranks].explained += one.explained;
        alone[i % ranks].spoilt += one.spoilt;
    }
    Fit best = all;
    for (std::size_t rank = 0; ranks > 1 && rank < ranks; ++rank) {
        alone[rank].wrong = all.wrong;
        alone[rank].rank = static_cast<int>(rank);
        if (alone[rank].worth() > best.worth())
            best = alone[rank];
    }
    return best;
}

std::string told(const KnownBug& known_bug, const Fit& fit, const std::string& nearness) {
    return "matches known bug " + std::to_string(known_bug.number) + ": " + known_bug.name +
           (fit.rank < 0 ? "" : ", on rank " + std::to_string(fit.rank) + " only") + " (" +
           std::to_string(fit.explained) + " of " + std::to_string(fit.wrong) + " wrong values, " +
           nearness +
           (fit.spoilt == 0 ? ""
                            : "; but it contradicts " + std::to_string(fit.spoilt) + " correct values") +
           ")";
}

} // namespace

std::vector<std::uint32_t> bits_within(const std::vector<float>& recorded, const std::vector<float>& made,
                                       double distance) {
    std::vector<std::uint32_t> bits = seen_bits(made);
    for (std::size_t at = 0; at < std::min(recorded.size(), made.size()); ++at)
        if (std::abs(static_cast<double>(made[at]) - static_cast<double>(recorded[at])) <= distance)
            bits[at] = std::bit_cast<std::uint32_t>(recorded[at]);
    return bits;
}

std::vector<std::string> what_fits(const Hypotheses& given) {
    std::vector<std::string> lines;
    for (Explanation& one : explanations(given))
        lines.push_back(std::move(one.line));
    return lines;
}

std::vector<Explanation> explanations(const Hypotheses& given) {
    const std::optional<SeenBits> right = given.run(0);
    if (!right)
        return {};
    std::vector<Explanation> all;
    std::vector<std::pair<Fit, const KnownBug*>> fits;
    for (const KnownBug& known_bug : given.known_bugs) {
        if (known_bug.of_devices)
            continue;
        const std::optional<SeenBits> made = given.run(known_bug.number);
        if (!made)
            continue;
        if (const Fit found = best_fit(given, *right, *made); found.fits())
            fits.emplace_back(found, &known_bug);
    }
    std::ranges::stable_sort(
        fits, [](const auto& one, const auto& two) { return one.first.worth() > two.first.worth(); });
    constexpr std::size_t most_told = 3;
    for (const auto& [found, known_bug] : std::span(fits).first(std::min(fits.size(), most_told))) {
        const auto others =
            std::ranges::count_if(
                fits, [worth = found.worth()](const auto& other) { return other.first.worth() == worth; }) -
            1;
        all.push_back(
            {told(*known_bug, found, given.nearness) +
                 (others == 0 ? ""
                              : "; " + std::to_string(others) +
                                    (others == 1 ? " other explains" : " others explain") + " as many"),
             found.explained == found.wrong && found.spoilt == 0});
    }
    return all;
}

std::int64_t most_parameters_to_try(std::int64_t rank_steps) {
    // A hundred known bugs take seconds, each with so many values times steps, and so many meetings of
    // ranks.
    constexpr std::int64_t most_values = 2'000'000;
    constexpr std::int64_t most_meetings = 3000;
    return rank_steps <= most_meetings ? most_values / std::max<std::int64_t>(1, rank_steps) : 0;
}

std::string too_large_to_try(std::int64_t parameters, std::int64_t rank_steps) {
    if (parameters <= most_parameters_to_try(rank_steps))
        return {};
    return "known bugs were not tried: ranks x steps are more than 3000, or times parameters more than 2 "
           "million; record a smaller model, or a run that goes wrong sooner";
}

} // namespace truestep::gate
