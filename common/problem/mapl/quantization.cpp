// Checks MAPL's codebook settings, sizes its messages, and orders the codewords that travel.
#include <truestep/problem/mapl/quantization.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mix64.hpp>
#include <truestep/problem/text.hpp>

#include "normal.hpp"

namespace truestep::problem::mapl {

namespace {

std::size_t count(Index of) {
    return static_cast<std::size_t>(of);
}

[[noreturn]] void wrong(const char* what, const std::string& value, const std::string& rule) {
    throw Error(std::string(what) + " is " + value + "; " + rule);
}

} // namespace

Codebooks codebooks_of(const Settings& settings) {
    const Quantization& of = settings.quantization;
    if (!quantizes(settings))
        return {};
    return {count(of.groups * of.rounds), count(of.codewords), count(settings.rank / of.groups)};
}

void check_quantization(const Settings& settings) {
    const Quantization& of = settings.quantization;
    if (of.codewords < 0 || of.codewords > most_codewords)
        wrong("codewords", std::to_string(of.codewords), "it must be from 0 (no quantization) to 65536");
    if (!quantizes(settings)) {
        const Quantization usual;
        const std::string other = of.groups != usual.groups     ? "groups"
                                  : of.rounds != usual.rounds   ? "rounds"
                                  : of.subsets != usual.subsets ? "subsets"
                                  : of.decay != usual.decay     ? "decay"
                                                                : "";
        if (!other.empty())
            throw Error("codewords is 0, and there are settings of quantization, such as " + other +
                        "; leave those as they are, or give codewords");
        return;
    }
    if (of.groups < 1 || settings.rank % of.groups != 0)
        wrong("groups", std::to_string(of.groups),
              "it must divide the rank, which is " + std::to_string(settings.rank));
    if (of.rounds < 1 || of.rounds > most_rounds)
        wrong("rounds", std::to_string(of.rounds), "it must be from 1 to " + std::to_string(most_rounds));
    if (of.subsets < 1 || of.codewords % of.subsets != 0)
        wrong("subsets", std::to_string(of.subsets),
              "it must divide the codewords, which are " + std::to_string(of.codewords));
    if (!(of.decay >= 0.0 && of.decay < 1.0))
        wrong("decay", shortest(of.decay), "it must be at least 0 and less than 1");
}

void check_codebooks(const Settings& settings, std::span<const float> values, const std::string& what) {
    const Codebooks shape = codebooks_of(settings);
    for (std::size_t book = 0; book < shape.books && !values.empty(); ++book)
        for (std::size_t i = 0; i < shape.width; ++i)
            if (values[shape.at(book, 0) + i] != 0.0F)
                throw Error(what + ": the first codeword of book " + std::to_string(book) +
                            " is not 0; it must be 0 and stays 0");
}

unsigned index_bits(Index codewords) {
    return static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(codewords - 1)));
}

std::size_t index_bytes(const Settings& settings, std::size_t tokens) {
    const std::size_t bits =
        tokens * codebooks_of(settings).books * index_bits(settings.quantization.codewords);
    return (bits + 7) / 8;
}

std::size_t codeword_bytes(const Settings& settings) {
    return codebooks_of(settings).size() / count(settings.quantization.subsets) * sizeof(float);
}

std::vector<Word> travelling(const Settings& settings, Index micro_batches) {
    const Quantization& of = settings.quantization;
    const auto turn = static_cast<std::uint64_t>(micro_batches / of.subsets);
    const std::uint64_t start = problem::mix64(settings.seed ^ problem::mix64(turn));
    std::vector<std::pair<std::uint64_t, Word>> order;
    for (Word word = 0; word < count(of.codewords); ++word)
        order.emplace_back(problem::mix64(start + word * 0x9e3779b97f4a7c15U), word);
    std::ranges::sort(order);
    const std::size_t size = order.size() / count(of.subsets);
    const std::size_t first = size * count(micro_batches % of.subsets);
    std::vector<Word> subset;
    for (std::size_t place = first; place < first + size; ++place)
        subset.push_back(order[place].second);
    return subset;
}

std::vector<float> first_codebooks(const Settings& settings) {
    const Codebooks shape = codebooks_of(settings);
    const std::uint64_t seed = problem::mix64(settings.seed + 4);
    std::vector<float> values(shape.size(), 0.0F);
    for (std::size_t book = 0; book < shape.books; ++book) {
        const auto round = static_cast<int>(book % count(settings.quantization.rounds));
        for (std::size_t i = shape.at(book, 1); i < shape.at(book + 1, 0); ++i)
            values[i] = static_cast<float>(std::ldexp(normal(seed, i), -1 - round));
    }
    return values;
}

} // namespace truestep::problem::mapl
