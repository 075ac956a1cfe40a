// The Markov chain of synthetic texts. Rows are drawn in integers, so every machine has the same
// ones.
#include <truestep/training/synthetic.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "draws.hpp"

namespace truestep::training {

namespace {

/// `count` of `symbols`, each at most once, in the order in which they are drawn.
std::vector<std::uint8_t> some_of(std::size_t symbols, std::size_t count, const Draws& draws,
                                  std::uint64_t from) {
    std::vector<std::uint8_t> all(symbols);
    std::iota(all.begin(), all.end(), std::uint8_t{0});
    for (std::size_t i = 0; i < count; ++i)
        std::swap(all[i], all[i + static_cast<std::size_t>(below(draws[from + i], symbols - i))]);
    all.resize(count);
    return all;
}

} // namespace

Chain::Chain(const SyntheticSettings& settings) : symbols_(settings.symbols), kinds_(settings.kinds) {
    const Draws successors(settings.seed, Stream::successors);
    const Draws weights(settings.seed, Stream::weights);
    rows_.resize(kinds_ * symbols_);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
        const std::uint64_t from = row * settings.successors;
        rows_[row].successors = some_of(symbols_, settings.successors, successors, from);
        std::uint32_t sum = 0;
        for (std::size_t i = 0; i < settings.successors; ++i)
            // 1 to 32: some successors are much more likely than others, as in a language.
            rows_[row].up_to.push_back(sum += 1U << below(weights[from + i], 6));
    }
}

double Chain::probability(std::uint8_t before, std::uint8_t last, std::uint8_t next) const {
    const Row& row = rows_[index(before, last)];
    const auto found = std::ranges::find(row.successors, next);
    if (found == row.successors.end())
        return 0.0;
    const auto at = static_cast<std::size_t>(found - row.successors.begin());
    return static_cast<double>(row.up_to[at] - (at == 0 ? 0 : row.up_to[at - 1])) / row.up_to.back();
}

std::uint8_t Chain::draw(std::uint8_t before, std::uint8_t last, std::uint64_t bits) const {
    const Row& row = rows_[index(before, last)];
    const auto found = std::ranges::upper_bound(row.up_to, below(bits, row.up_to.back()));
    return row.successors[static_cast<std::size_t>(found - row.up_to.begin())];
}

double Chain::entropy_rate() const {
    // The stationary distribution over (kind of the symbol before the last, last symbol): a row
    // depends on nothing else.
    std::vector<double> often(rows_.size(), 1.0 / static_cast<double>(rows_.size()));
    constexpr int most_rounds = 100'000;
    double change = 1.0;
    for (int round = 0; change > 1e-14 && round < most_rounds; ++round) {
        std::vector<double> next(rows_.size(), 0.0);
        for (std::size_t at = 0; at < rows_.size(); ++at) {
            const Row& row = rows_[at];
            const std::size_t last = at % symbols_;
            std::uint32_t before = 0;
            for (std::size_t i = 0; i < row.successors.size(); ++i) {
                next[index(last, row.successors[i])] +=
                    often[at] * (row.up_to[i] - before) / row.up_to.back();
                before = row.up_to[i];
            }
        }
        change = 0.0;
        for (std::size_t at = 0; at < rows_.size(); ++at) {
            // Half a step: this also converges for periodic chains, to the same distribution.
            next[at] = (next[at] + often[at]) / 2.0;
            change += std::abs(next[at] - often[at]);
        }
        often.swap(next);
    }
    double rate = 0.0;
    for (std::size_t at = 0; at < rows_.size(); ++at) {
        const Row& row = rows_[at];
        std::uint32_t before = 0;
        for (const std::uint32_t up_to : row.up_to) {
            const double chance = static_cast<double>(up_to - before) / row.up_to.back();
            rate -= often[at] * chance * std::log(chance);
            before = up_to;
        }
    }
    return rate;
}

} // namespace truestep::training
