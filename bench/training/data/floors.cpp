// Computes the losses of counting models up to some order, which a trained model has to beat.
#include <truestep/training/floors.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace truestep::training {

namespace {

constexpr unsigned symbol_bits = 8;

/// A mask that keeps the last `length` symbols.
constexpr std::uint64_t mask_of(std::size_t length) {
    return length >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (symbol_bits * length)) - 1;
}

} // namespace

NGrams::NGrams(std::span<const std::uint8_t> text, std::size_t symbols)
    : symbols_(symbols), of_order_(orders) {
    for (std::size_t order = 0; order < orders; ++order) {
        std::vector<std::uint64_t> all;
        all.reserve(text.size());
        std::uint64_t run = 0;
        for (std::size_t at = 0; at < text.size(); ++at) {
            run = ((run << symbol_bits) | text[at]) & mask_of(order + 1);
            if (at >= order)
                all.push_back(run);
        }
        std::ranges::sort(all);
        Counted& counted = of_order_[order];
        for (const std::uint64_t one : all) {
            if (counted.runs.empty() || counted.runs.back() != one) {
                counted.runs.push_back(one);
                counted.times.push_back(0);
            }
            ++counted.times.back();
        }
    }
}

std::vector<double> NGrams::chances(std::span<const std::uint8_t> before, std::uint8_t next) const {
    std::vector<double> all(orders);
    double chance = 1.0 / static_cast<double>(symbols_);
    std::uint64_t context = 0;
    for (std::size_t order = 0; order < orders; ++order) {
        if (order > before.size()) {
            all[order] = chance;
            continue;
        }
        if (order > 0)
            context |= std::uint64_t{before[before.size() - order]} << (symbol_bits * (order - 1));
        const Counted& counted = of_order_[order];
        const std::uint64_t first = context << symbol_bits;
        std::uint64_t times = 0; // that the context occurs
        std::uint64_t kinds = 0; // of symbols behind it
        std::uint64_t this_one = 0;
        for (auto at = std::ranges::lower_bound(counted.runs, first);
             at != counted.runs.end() && (*at >> symbol_bits) == context; ++at) {
            const std::uint32_t here = counted.times[static_cast<std::size_t>(at - counted.runs.begin())];
            times += here;
            ++kinds;
            this_one += *at == (first | next) ? here : 0;
        }
        if (times > 0)
            chance = (static_cast<double>(this_one) + (static_cast<double>(kinds) * chance)) /
                     static_cast<double>(times + kinds);
        all[order] = chance;
    }
    return all;
}

std::vector<Floor> floors(const Text& text) {
    const NGrams grams(text.learned, text.symbols);
    std::vector<double> losses(NGrams::orders, 0.0);
    const std::span measured(text.measured);
    for (std::size_t at = 0; at < measured.size(); ++at) {
        const std::vector<double> chances = grams.chances(measured.first(at), measured[at]);
        for (std::size_t order = 0; order < NGrams::orders; ++order)
            losses[order] -= std::log(chances[order]);
    }
    std::vector<Floor> all;
    for (std::size_t order = 0; order < NGrams::orders; ++order)
        all.push_back({.order = order, .loss = losses[order] / static_cast<double>(measured.size())});
    return all;
}

std::string name(const Floor& floor) {
    constexpr std::array<const char*, 3> short_ones{"unigram", "bigram", "trigram"};
    return floor.order < short_ones.size() ? short_ones[floor.order]
                                           : std::to_string(floor.order + 1) + "-gram";
}

double trigram(const std::vector<Floor>& floors) {
    return floors.at(2).loss;
}

} // namespace truestep::training
