// Tests MAPL's codebook settings, the bits of an index, and the turns of the codewords.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mapl/quantization.hpp>

namespace truestep::problem::mapl {
namespace {

Settings quantized(const Quantization& of, Index rank = 4) {
    return {.width = 8, .rank = rank, .vocabulary = 3, .quantization = of};
}

std::string refused(const Quantization& of) {
    try {
        check(quantized(of));
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(MaplQuantization, EachWrongSettingIsNamed) {
    EXPECT_EQ(refused({.codewords = 6, .groups = 2, .rounds = 3, .subsets = 3, .decay = 0.0}), "");
    EXPECT_EQ(refused({.codewords = -1}), "codewords is -1; it must be from 0 (no quantization) to 65536");
    EXPECT_EQ(refused({.codewords = 65537}),
              "codewords is 65537; it must be from 0 (no quantization) to 65536");
    EXPECT_EQ(refused({.codewords = 2, .groups = 3}), "groups is 3; it must divide the rank, which is 4");
    EXPECT_EQ(refused({.codewords = 2, .groups = 0}), "groups is 0; it must divide the rank, which is 4");
    EXPECT_EQ(refused({.codewords = 2, .rounds = 0}), "rounds is 0; it must be from 1 to 1000");
    EXPECT_EQ(refused({.codewords = 6, .subsets = 4}),
              "subsets is 4; it must divide the codewords, which are 6");
    EXPECT_EQ(refused({.codewords = 6, .decay = 1.0}), "decay is 1; it must be at least 0 and less than 1");
    EXPECT_EQ(refused({.codewords = 0, .rounds = 2}),
              "codewords is 0, and there are settings of quantization, such as rounds; leave those as they "
              "are, or give codewords");
}

TEST(MaplQuantization, AnIndexTakesAsManyBitsAsItNeeds) {
    const std::vector<std::pair<Index, unsigned>> all{{1, 0}, {2, 1}, {3, 2},   {4, 2},   {5, 3},
                                                      {8, 3}, {9, 4}, {256, 8}, {257, 9}, {65536, 16}};
    for (const auto& [codewords, bits] : all)
        EXPECT_EQ(index_bits(codewords), bits) << codewords;
    const Settings three = quantized({.codewords = 5, .groups = 2, .rounds = 3, .subsets = 5});
    EXPECT_EQ(index_bytes(three, 7), (7U * 6 * 3 + 7) / 8);
    EXPECT_EQ(index_bytes(three, 0), 0U);
    EXPECT_EQ(codeword_bytes(three), 4U * 6 * 2); // one of five codewords, of six books
}

// Section 23.1: after S micro-batches each codeword has travelled once, and the next turn has
// another order.
TEST(MaplQuantization, ATurnTakesEachCodewordOnce) {
    const Settings settings = quantized({.codewords = 12, .subsets = 4});
    std::set<std::vector<Word>> orders;
    for (Index turn = 0; turn < 5; ++turn) {
        std::vector<Word> order;
        for (Index micro = 0; micro < 4; ++micro) {
            const std::vector<Word> some = travelling(settings, turn * 4 + micro);
            EXPECT_EQ(some.size(), 3U);
            order.insert(order.end(), some.begin(), some.end());
        }
        EXPECT_EQ(std::set<Word>(order.begin(), order.end()).size(), 12U);
        orders.insert(order);
    }
    EXPECT_EQ(orders.size(), 5U);
}

// As turn_codewords() of fixtures/mapl/independent/mapl.py orders them.
TEST(MaplQuantization, TurnsHaveTheOrderOfTheWitness) {
    Settings settings = quantized({.codewords = 12, .subsets = 4});
    const std::vector<std::pair<Index, std::vector<Word>>> of_seed_1{
        {0, {8, 5, 9}}, {1, {2, 3, 7}}, {2, {0, 11, 6}}, {3, {1, 10, 4}}, {4, {2, 5, 1}}, {7, {9, 11, 3}}};
    for (const auto& [micro, words] : of_seed_1)
        EXPECT_EQ(travelling(settings, micro), words) << micro;
    settings.seed = 9;
    EXPECT_EQ(travelling(settings, 4), (std::vector<Word>{8, 3, 2}));
}

TEST(MaplQuantization, TheFirstCodewordIsZeroAndRoundsGetFiner) {
    const Settings settings = quantized({.codewords = 64, .groups = 2, .rounds = 3});
    const Codebooks shape = codebooks_of(settings);
    const std::vector<float> values = first_codebooks(settings);
    ASSERT_EQ(values.size(), 6U * 64 * 2);
    std::vector<double> energy(6);
    for (std::size_t book = 0; book < 6; ++book)
        for (std::size_t word = 0; word < 64; ++word)
            for (std::size_t i = 0; i < shape.width; ++i) {
                const auto value = static_cast<double>(values[shape.at(book, word) + i]);
                EXPECT_EQ(value == 0.0, word == 0);
                energy[book] += value * value / 126;
            }
    for (std::size_t book = 0; book < 6; ++book)
        EXPECT_NEAR(energy[book] * (4 << (2 * (book % 3))), 1.0, 0.4) << book;
}

} // namespace
} // namespace truestep::problem::mapl
