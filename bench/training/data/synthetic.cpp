// Makes synthetic texts, and computes the loss of their own source.
#include <truestep/training/synthetic.hpp>

#include <cmath>
#include <string>

#include <truestep/problem/error.hpp>
#include <truestep/problem/memory_limits.hpp>

#include "draws.hpp"

namespace truestep::training {

namespace {

constexpr std::uint32_t always = 65536;

double share(std::uint32_t of_65536) {
    return static_cast<double>(of_65536) / always;
}

void demand(bool holds, const std::string& what) {
    if (!holds)
        throw Error("synthetic text: " + what);
}

void check(const SyntheticSettings& settings) {
    const auto is = [](std::size_t value) { return " is " + std::to_string(value); };
    demand(settings.symbols >= 2 && settings.symbols <= 256,
           "symbols" + is(settings.symbols) + "; it must be from 2 to 256");
    demand(settings.kinds >= 1 && settings.kinds <= settings.symbols,
           "kinds" + is(settings.kinds) + "; it must be from 1 to the number of symbols");
    demand(settings.successors >= 1 && settings.successors <= settings.symbols,
           "successors" + is(settings.successors) + "; it must be from 1 to the number of symbols");
    demand(settings.begins <= always, "begins" + is(settings.begins) + "; it must be at most 65536");
    demand(settings.ends >= 1 && settings.ends <= always,
           "ends" + is(settings.ends) + "; it must be from 1 to 65536");
    demand(settings.nearest >= 1 && settings.nearest <= settings.farthest,
           "nearest" + is(settings.nearest) + "; it must be from 1 to farthest");
    demand(settings.learned > settings.farthest,
           "learned" + is(settings.learned) + " symbols; it must be more than farthest");
    demand(settings.measured >= 1, "measured is 0 symbols; it must be at least 1");
    problem::check_memory(
        3.0 * (static_cast<double>(settings.learned) + static_cast<double>(settings.measured)),
        "a synthetic text of so many symbols");
}

std::vector<std::uint8_t> drawn(const Chain& chain, const SyntheticSettings& settings) {
    const Draws symbols(settings.seed, Stream::symbol);
    const Draws states(settings.seed, Stream::state);
    const Draws distances(settings.seed, Stream::distance);
    std::vector<std::uint8_t> all(settings.learned + settings.measured);
    std::size_t distance = 0; // 0: nothing is copied
    for (std::size_t at = 0; at < all.size(); ++at) {
        if (at >= settings.farthest) {
            const std::uint64_t chance = below(states[at], always);
            if (distance != 0)
                distance = chance < settings.ends ? 0 : distance;
            else if (chance < settings.begins)
                distance =
                    settings.nearest + below(distances[at], settings.farthest - settings.nearest + 1);
        }
        all[at] = distance != 0 ? all[at - distance]
                  : at < 2      ? static_cast<std::uint8_t>(below(symbols[at], settings.symbols))
                                : chain.draw(all[at - 2], all[at - 1], symbols[at]);
    }
    return all;
}

} // namespace

Filter::Filter(const Chain& chain, const SyntheticSettings& settings)
    : chain_(chain), settings_(settings), copying_(settings.farthest - settings.nearest + 1, 0.0) {
    past_.reserve(settings.learned + settings.measured);
}

void Filter::move_on() {
    const double begins = free_ * share(settings_.begins);
    const double stays = 1.0 - share(settings_.ends);
    free_ -= begins;
    for (double& chance : copying_) {
        free_ += chance * share(settings_.ends);
        chance = (chance * stays) + (begins / static_cast<double>(copying_.size()));
    }
}

double Filter::free_chance(std::uint8_t symbol) const {
    const std::size_t at = past_.size();
    return at < 2 ? 1.0 / static_cast<double>(settings_.symbols)
                  : chain_.probability(past_[at - 2], past_[at - 1], symbol);
}

double Filter::take(std::uint8_t symbol) {
    const std::size_t at = past_.size();
    if (at >= settings_.farthest)
        move_on();
    free_ *= free_chance(symbol);
    double chance = free_;
    for (std::size_t i = 0; i < copying_.size(); ++i) {
        if (at >= settings_.farthest && past_[at - settings_.nearest - i] == symbol)
            chance += copying_[i];
        else
            copying_[i] = 0.0;
    }
    // An impossible symbol leaves no state to continue from.
    if (chance > 0.0) {
        free_ /= chance;
        for (double& one : copying_)
            one /= chance;
    }
    past_.push_back(symbol);
    return chance;
}

Text synthetic_text(const SyntheticSettings& settings) {
    check(settings);
    const Chain chain(settings);
    const std::vector<std::uint8_t> all = drawn(chain, settings);
    Filter filter(chain, settings);
    const auto cut = all.begin() + static_cast<std::ptrdiff_t>(settings.learned);
    for (auto symbol = all.begin(); symbol != cut; ++symbol)
        filter.take(*symbol);
    double loss = 0.0;
    for (auto symbol = cut; symbol != all.end(); ++symbol)
        loss -= std::log(filter.take(*symbol));
    return {.name = "synthetic, seed " + std::to_string(settings.seed),
            .symbols = settings.symbols,
            .learned = {all.begin(), cut},
            .measured = {cut, all.end()},
            .entropy = loss / static_cast<double>(settings.measured)};
}

} // namespace truestep::training
