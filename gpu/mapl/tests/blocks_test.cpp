// Compares a boundary's blocks with the host's functions, in every bit.
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/mapl/codec.hpp>
#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/gpu/algorithms/without_barriers.hpp>

#include "algorithms/subspace.hpp"
#include "block_codec.hpp"
#include "machine.hpp"
#include "token_order.hpp"

namespace truestep::gpu::mapl {
namespace {

using gpu::Machine;

std::vector<std::uint32_t> bits(const Floats& values) {
    std::vector<std::uint32_t> all;
    for (const float value : values)
        all.push_back(std::bit_cast<std::uint32_t>(value));
    return all;
}

struct Way {
    int threads;
    std::uint64_t seed;
};

class MaplBlocks : public testing::TestWithParam<Way> {
  protected:
    Floats synthetic(std::size_t size) {
        std::normal_distribution<float> normal(0.0F, 1.0F);
        constexpr float special[]{0.0F, 0x1p-149F, 0x1.01p0F, 0x1.03p0F, 0x1.0100'02p0F, 0x1p-126F, 1e10F};
        Floats values(size);
        for (float& value : values) {
            value = random() % 2 == 0 ? normal(random) : special[random() % 7];
            value = random() % 2 == 0 ? value : -value;
        }
        return values;
    }
    std::vector<Id> ids(std::size_t tokens, std::uint64_t vocabulary) {
        std::vector<Id> all(tokens);
        for (Id& id : all)
            id = static_cast<Id>(random() % vocabulary);
        return all;
    }
    std::mt19937_64 random{5}; // NOLINT: the same numbers at each run
    Machine machine{GetParam().threads, GetParam().seed};
};
std::string way_name(const testing::TestParamInfo<Way>& info) {
    return std::to_string(info.param.threads) + "threads";
}
INSTANTIATE_TEST_SUITE_P(Ways, MaplBlocks, testing::Values(Way{256, 1}, Way{32, 2}, Way{1024, 3}),
                         way_name);

TEST_P(MaplBlocks, ValuesOf16BitsAreTheHosts) {
    for (const Index size : gpu::sizes) {
        const Floats values = synthetic(static_cast<std::size_t>(size));
        Floats right = values;
        ASSERT_TRUE(round_to_payload(Payload::bf16, right));
        std::vector<std::uint16_t> packed(values.size() + 1, 7);
        Floats wide(values.size());
        std::uint32_t not_finite = 0;
        machine.run<boundary::PackValues>(boundary::tiles_of(size),
                                          {size, values.data(), packed.data(), &not_finite});
        machine.run<boundary::WidenValues>(boundary::tiles_of(size), {size, packed.data(), wide.data()});
        EXPECT_EQ(bits(wide), bits(right)) << size;
        EXPECT_EQ(packed.back(), 7) << "what stands behind the end is nobody's";
        EXPECT_EQ(not_finite, 0U);
    }
}

TEST_P(MaplBlocks, WhatIsNotFiniteIsTold) {
    constexpr float infinite = std::numeric_limits<float>::infinity();
    // Finite in fp32, but too large for 16 bits.
    constexpr float greatest = std::numeric_limits<float>::max();
    for (const Index size : {Index{1}, Index{4097}, Index{10'001}})
        for (const Index at : {Index{0}, size / 2, size - 1})
            for (const float bad : {infinite, -infinite, std::nanf(""), greatest, -greatest, 0x1.fep127F}) {
                Floats values(static_cast<std::size_t>(size), 1.0F);
                values[static_cast<std::size_t>(at)] = bad;
                std::vector<std::uint16_t> packed(values.size());
                std::uint32_t whole = 0;
                std::uint32_t half = 0;
                machine.run<boundary::Check>(boundary::tiles_of(size), {size, values.data(), &whole});
                machine.run<boundary::PackValues>(boundary::tiles_of(size),
                                                  {size, values.data(), packed.data(), &half});
                EXPECT_EQ(whole != 0, !all_finite(values)) << size << " " << at << " " << bad;
                EXPECT_EQ(half != 0, !round_to_payload(Payload::bf16, values))
                    << size << " " << at << " " << bad;
            }
}

TEST_P(MaplBlocks, IdsGoInFewBytesAndComeBack) {
    for (const std::size_t tokens : {std::size_t{1}, std::size_t{33}, std::size_t{3000}})
        for (const Index each : {1, 2, 3, 4}) {
            const std::vector<Id> sent =
                ids(tokens, std::uint64_t{1} << (8U * static_cast<unsigned>(each)));
            std::vector<std::uint8_t> message(tokens * static_cast<std::size_t>(each) + 1, 9);
            const auto count = static_cast<Index>(tokens);
            machine.run<boundary::PackIds>(boundary::tiles_of(count * each),
                                           {count, each, sent.data(), message.data()});
            for (std::size_t i = 0; i + 1 < message.size(); ++i)
                EXPECT_EQ(message[i],
                          static_cast<std::uint8_t>(sent[i / static_cast<std::size_t>(each)] >>
                                                    (8U * (i % static_cast<std::size_t>(each)))));
            EXPECT_EQ(message.back(), 9);
            std::vector<Id> came(tokens);
            machine.run<boundary::UnpackIds>(boundary::tiles_of(count),
                                             {count, each, message.data(), came.data()});
            EXPECT_EQ(came, sent);
        }
}

TEST_P(MaplBlocks, RowsAreAddedInTheOrderOfTheTokens) {
    for (const std::size_t tokens : {std::size_t{1}, std::size_t{40}, std::size_t{700}})
        for (const std::size_t rank : {std::size_t{1}, std::size_t{5}, std::size_t{64}, std::size_t{300}}) {
            const std::vector<Id> of = ids(tokens, 9);
            const Floats rows = synthetic(tokens * rank);
            Floats table = synthetic(9 * rank);
            Floats right = table;
            for (std::size_t token = 0; token < tokens; ++token)
                for (std::size_t j = 0; j < rank; ++j)
                    right[of[token] * rank + j] += rows[token * rank + j];
            const TokenOrder order = order_of(of);
            const auto groups = static_cast<Index>(order.groups);
            machine.run<boundary::AddRows>(
                boundary::tiles_of(groups * static_cast<Index>(rank)),
                {groups, static_cast<Index>(rank), order.values.data() + order.ids_at(),
                 order.values.data() + order.begins_at(), order.values.data(), rows.data(), table.data()});
            EXPECT_EQ(bits(table), bits(right)) << tokens << " " << rank;
            Floats gathered(tokens * rank);
            machine.run<boundary::GatherRows>(boundary::tiles_of(static_cast<Index>(gathered.size())),
                                              {static_cast<Index>(tokens), static_cast<Index>(rank),
                                               of.data(), table.data(), gathered.data()});
            for (std::size_t i = 0; i < gathered.size(); ++i)
                ASSERT_EQ(std::bit_cast<std::uint32_t>(gathered[i]),
                          std::bit_cast<std::uint32_t>(table[of[i / rank] * rank + i % rank]));
        }
}

double sum_of_squares(const Floats& values) {
    double sum = 0.0;
    for (const float value : values)
        sum += static_cast<double>(value) * static_cast<double>(value);
    return sum;
}

template <class Algorithm>
std::vector<double> sums_by(Machine& machine, const Floats& values) {
    const auto size = static_cast<Index>(values.size());
    std::vector<double> sums(static_cast<std::size_t>(boundary::tiles_of(size)));
    machine.run<Algorithm>(boundary::tiles_of(size), {size, values.data(), sums.data()});
    return sums;
}

TEST_P(MaplBlocks, SquaresAreAddedInOneOrderWhateverTheThreads) {
    Machine other(128, 7);
    for (const Index size : gpu::sizes) {
        Floats values = synthetic(static_cast<std::size_t>(size));
        for (float& value : values)
            value = std::fmod(value, 4.0F);
        const std::vector<double> sums = sums_by<boundary::SquareSums>(machine, values);
        EXPECT_EQ(sums, sums_by<boundary::SquareSums>(other, values));
        double sum = 0.0;
        for (const double of_tile : sums)
            sum += of_tile;
        EXPECT_NEAR(sum, sum_of_squares(values), 1e-12 * sum) << size;
    }
}

TEST_P(MaplBlocks, WithoutItsBarrierASumIsAnother) {
    Floats values(gpu::tile);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i % 7);
    EXPECT_NE(sums_by<gpu::planted::WithoutBarriers<boundary::SquareSums>>(machine, values),
              sums_by<boundary::SquareSums>(machine, values));
}

Settings coded(Index rank, Index groups, Index rounds, Index words) {
    Settings settings{.width = rank, .rank = rank, .vocabulary = 5};
    settings.quantization = {
        .codewords = words, .groups = groups, .rounds = rounds, .subsets = 1, .decay = 0.7};
    return settings;
}

class Coded {
  public:
    Coded(Machine& machine, const Settings& settings) : machine_(machine), settings_(settings) {
        state.codebooks = first_codebooks(settings);
        state.learned = state.codebooks;
        for (std::size_t i = state.learned.size() / 2; i < state.learned.size(); ++i)
            if (state.learned[i] != 0.0F)
                state.learned[i] += 0.125F;
        codec.begin(machine, settings, state);
    }
    Floats learned() {
        codec.learned();
        const auto& vector = codec.learned_codebooks();
        Floats values(static_cast<std::size_t>(vector.size()));
        machine_.download(values.data(), vector.data(), vector.size());
        return values;
    }

  private:
    Machine& machine_;
    Settings settings_;

  public:
    EndState state;
    BlockCodec<Machine> codec;
};

TEST_P(MaplBlocks, CodewordsAreTheHosts) {
    for (const auto& [rank, groups, rounds, words] :
         {std::array<Index, 4>{4, 1, 1, 6}, {4, 2, 3, 8}, {6, 3, 2, 33}, {8, 1, 2, 100}, {2, 2, 1, 1}})
        for (const Index tokens : {0, 1, 33, 300}) {
            const Settings settings = coded(rank, groups, rounds, words);
            Coded blocks(machine, settings);
            Floats z = synthetic(static_cast<std::size_t>(tokens * rank));
            for (std::size_t i = 0; i < z.size(); i += 2)
                z[i] = std::round(2.0F * std::fmod(z[i], 2.0F)) / 2.0F;
            Codec host(settings);
            Floats right = blocks.state.learned;
            const std::vector<Word> chosen = host.encode(z, blocks.state.codebooks, right);
            std::vector<Word> indices(chosen.size());
            std::uint32_t not_finite = 0;
            blocks.codec.encode(machine, tokens, z.data(), indices.data(), &not_finite);
            EXPECT_EQ(indices, chosen) << rank << " " << words << " " << tokens;
            EXPECT_EQ(bits(blocks.learned()), bits(right));
            EXPECT_EQ(not_finite, 0U);

            std::vector<std::byte> packed(index_bytes(settings, static_cast<std::size_t>(tokens)));
            pack_indices(chosen, index_bits(words), packed.data());
            std::vector<std::uint8_t> message(packed.size() + 1, 3);
            blocks.codec.pack(machine, tokens, indices.data(), message.data());
            EXPECT_TRUE(
                std::equal(packed.begin(), packed.end(), message.begin(), [](std::byte a, std::uint8_t b) {
                    return std::to_integer<std::uint8_t>(a) == b;
                }));
            EXPECT_EQ(message.back(), 3);
            std::vector<Word> came(chosen.size());
            blocks.codec.unpack(machine, tokens, message.data(), came.data());
            EXPECT_EQ(came, chosen);
            EXPECT_EQ(blocks.codec.wrong_index(machine, tokens, came.data()), std::nullopt);

            Floats decoded(z.size());
            Floats right_z(z.size());
            host.decode(chosen, blocks.state.codebooks, right_z.data());
            blocks.codec.decode(machine, tokens, came.data(), decoded.data());
            EXPECT_EQ(bits(decoded), bits(right_z));
        }
}

TEST_P(MaplBlocks, CodewordsTravelByBytes) {
    const Settings settings = coded(6, 2, 2, 9);
    Coded blocks(machine, settings);
    const std::vector<Word> which{7, 2, 3};
    std::vector<std::byte> right(4 * 3 * 3 * sizeof(float));
    gather_codewords(codebooks_of(settings), which, blocks.state.learned, right.data());
    std::vector<std::uint8_t> message(right.size() + 3);
    std::uint8_t* const odd = message.data() + 3; // not aligned for a float
    blocks.codec.gather(machine, which, odd);
    machine.finish();
    for (std::size_t i = 0; i < right.size(); ++i)
        ASSERT_EQ(odd[i], std::to_integer<std::uint8_t>(right[i])) << i;
    blocks.codec.scatter(machine, which, odd);
    Floats expected = blocks.state.codebooks;
    scatter_codewords(codebooks_of(settings), which, right.data(), expected);
    Floats codebooks(expected.size());
    machine.download(codebooks.data(), blocks.codec.codebooks().data(),
                     static_cast<Index>(expected.size()));
    EXPECT_EQ(bits(codebooks), bits(expected));
    EXPECT_NE(bits(expected), bits(blocks.state.codebooks));
}

TEST_P(MaplBlocks, TheFirstIndexThatNoBookHasIsFound) {
    const Settings settings = coded(4, 1, 1, 6); // three bits, so 6 and 7 are invalid
    Coded blocks(machine, settings);
    std::vector<Word> sent(500, 5);
    sent[499] = 6;
    sent[321] = 7;
    std::vector<std::byte> packed(index_bytes(settings, sent.size()));
    pack_indices(sent, 3, packed.data());
    std::vector<Word> came(sent.size());
    blocks.codec.unpack(machine, 500, reinterpret_cast<const std::uint8_t*>(packed.data()), came.data());
    EXPECT_EQ(blocks.codec.wrong_index(machine, 500, came.data()), Word{7});
}

} // namespace
} // namespace truestep::gpu::mapl
