// Finds the known bug that explains recorded values within their rounding limits.
#include <truestep/verify/known_bugs.hpp>

#include <algorithm>

namespace truestep::verify {

void KnownMistakes::add(Tally& tally, int rank, double recorded, Limited right, Limited made) {
    if (!std::isfinite(right.value) || !std::isfinite(right.limit))
        return; // these values cannot be wrong
    const double from_right = std::abs(recorded - right.value);
    const double from_made = std::abs(recorded - made.value);
    const bool wrong = !(from_right <= right.limit);
    // If the two limits overlap, the clearly nearer one explains a value.
    const bool explained =
        wrong && std::isfinite(made.limit) && from_made <= made.limit && from_made < 0.5 * from_right;
    const bool spoilt = !wrong && !(from_made <= made.limit);
    tally.all.wrong += wrong ? 1 : 0;
    for (Fit* fit :
         {&tally.all, rank == all_ranks ? nullptr : &tally.alone[static_cast<std::size_t>(rank)]})
        if (fit != nullptr) {
            fit->explained += explained ? 1 : 0;
            fit->spoilt += spoilt ? 1 : 0;
        }
}

KnownMistakes::Fit KnownMistakes::Tally::best() const {
    Fit found = all;
    for (Fit one : alone) {
        one.wrong = all.wrong;
        if (one.worth() > found.worth())
            found = one;
    }
    return found;
}

std::string KnownMistakes::line() const {
    std::vector<const TriedBug*> best;
    for (const TriedBug& tried : tried_) {
        const Fit fit = tried.here.best();
        const Index least = best.empty() ? fit.worth() : best.front()->here.best().worth();
        if (!fit.fits() || fit.worth() < least)
            continue;
        if (fit.worth() > least)
            best.clear();
        best.push_back(&tried);
    }
    if (best.empty())
        return {};
    const auto worth_later = [](const TriedBug* tried) { return tried->later.best().worth(); };
    const Index most = worth_later(*std::ranges::max_element(best, {}, worth_later));
    std::string names;
    for (const TriedBug* tried : best)
        if (worth_later(tried) == most) {
            const int rank = tried->here.best().rank;
            names += (names.empty() ? "" : ", or ") + tried->name +
                     (rank == all_ranks
                          ? ""
                          : " (on " + std::string(words_.rank) + " " + std::to_string(rank) + " only)");
        }
    const Fit shown = best.front()->here.best();
    return names + ": " + std::to_string(shown.explained) + " of " + std::to_string(shown.wrong) +
           " wrong values of " + std::string(words_.step) + " " + std::to_string(parted_) +
           ", within rounding" +
           (shown.spoilt == 0 ? ""
                              : "; but it contradicts " + std::to_string(shown.spoilt) + " correct values");
}

} // namespace truestep::verify
