#include <truestep/verify/known_mistakes.hpp>

#include <algorithm>

namespace truestep::verify {

KnownMistakes::KnownMistakes(const std::vector<std::string>& names, int ranks, const Words& words)
    : words_(words) {
    for (const std::string& name : names) {
        tried_.push_back({name, {}, std::vector<Fit>(static_cast<std::size_t>(ranks))});
        for (int rank = 0; rank < ranks; ++rank)
            tried_.back().alone[static_cast<std::size_t>(rank)].rank = rank;
    }
}

void KnownMistakes::add(Tried& tried, int rank, double recorded, Limited right, Limited made) {
    if (!std::isfinite(right.value) || !std::isfinite(right.limit))
        return; // nothing could be wrong here
    const double from_right = std::abs(recorded - right.value);
    const double from_made = std::abs(recorded - made.value);
    const bool wrong = !(from_right <= right.limit);
    // Two limits may overlap: what explains a value is clearly the nearer one.
    const bool explained =
        wrong && std::isfinite(made.limit) && from_made <= made.limit && from_made < 0.5 * from_right;
    const bool spoilt = !wrong && !(from_made <= made.limit);
    tried.all.wrong += wrong ? 1 : 0;
    for (Fit* fit :
         {&tried.all, rank == all_ranks ? nullptr : &tried.alone[static_cast<std::size_t>(rank)]})
        if (fit != nullptr) {
            fit->explained += explained ? 1 : 0;
            fit->spoilt += spoilt ? 1 : 0;
        }
}

KnownMistakes::Fit KnownMistakes::best_of(const Tried& tried) {
    Fit best = tried.all;
    for (Fit alone : tried.alone) {
        alone.wrong = tried.all.wrong;
        if (alone.worth() > best.worth())
            best = alone;
    }
    return best;
}

std::string KnownMistakes::line(Index step, const KnownMistakes& later) const {
    std::vector<std::size_t> best;
    for (std::size_t i = 0; i < tried_.size(); ++i) {
        const Fit fit = best_of(tried_[i]);
        if (!fit.fits() || (!best.empty() && fit.worth() < best_of(tried_[best.front()]).worth()))
            continue;
        if (!best.empty() && fit.worth() > best_of(tried_[best.front()]).worth())
            best.clear();
        best.push_back(i);
    }
    if (best.empty())
        return {};
    const auto worth_later = [&](std::size_t i) { return best_of(later.tried_[i]).worth(); };
    const Index most = worth_later(*std::ranges::max_element(best, {}, worth_later));
    std::string names;
    for (const std::size_t i : best)
        if (worth_later(i) == most) {
            const int rank = best_of(tried_[i]).rank;
            names += (names.empty() ? "" : ", or ") + tried_[i].name +
                     (rank == all_ranks
                          ? ""
                          : " (on " + std::string(words_.rank) + " " + std::to_string(rank) + " alone)");
        }
    const Fit shown = best_of(tried_[best.front()]);
    return names + ": " + std::to_string(shown.explained) + " of " + std::to_string(shown.wrong) +
           " wrong values of " + std::string(words_.step) + " " + std::to_string(step) +
           ", within rounding" +
           (shown.spoilt == 0
                ? ""
                : "; but it would make " + std::to_string(shown.spoilt) + " right ones wrong");
}

} // namespace truestep::verify
