// Compares Z as indices of codewords with the reference, bit for bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/distributed/mapl/codec.hpp>
#include <truestep/distributed/mapl/ends.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/reference/mapl/vector_quantization.hpp>

namespace truestep::distributed::mapl {
namespace {

using distributed::Peers;

Settings quantized(const Quantization& of, Index rank) {
    return {.width = rank, .rank = rank, .vocabulary = 5, .quantization = of};
}

/// Multiples of `step`, so that ties are common; `step` may be tiny.
Floats drawn(std::size_t count, unsigned seed, float step) {
    std::mt19937_64 random(seed);
    Floats values(count);
    for (float& value : values)
        value = static_cast<float>(static_cast<int>(random() % 41) - 20) * step;
    return values;
}

Floats books_of(const Settings& settings, float step) {
    const Codebooks shape = codebooks_of(settings);
    Floats values = drawn(shape.size(), 7, step);
    for (std::size_t book = 0; book < shape.books; ++book)
        std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(shape.at(book, 0)), shape.width, 0.0F);
    return values;
}

template <class T>
Floats flat(const std::vector<reference::mapl::Matrix<T>>& books) {
    Floats all;
    for (const reference::mapl::Matrix<T>& book : books)
        all.insert(all.end(), book.data(), book.data() + book.size());
    return all;
}

void expect_the_references(const Settings& settings, const Floats& books, const Floats& z) {
    const auto tokens = static_cast<Index>(z.size()) / settings.rank;
    reference::mapl::Quantizer<float> reference{settings,
                                                reference::mapl::Quantizer<float>::books(settings, books),
                                                reference::mapl::Quantizer<float>::books(settings, books)};
    reference::mapl::Matrix<float> Z(tokens, settings.rank);
    std::ranges::copy(z, Z.data());
    const reference::mapl::Indices wanted = reference.through(Z);
    Codec codec(settings);
    Floats learned = books;
    const std::vector<Word> indices = codec.encode(z, books, learned);
    ASSERT_EQ(indices.size(), static_cast<std::size_t>(wanted.size()));
    EXPECT_TRUE(std::ranges::equal(indices, std::span(wanted.data(), indices.size()),
                                   [](Word one, Index other) { return Index{one} == other; }));
    Floats back(z.size());
    codec.decode(indices, books, back.data());
    EXPECT_EQ(std::memcmp(back.data(), Z.data(), back.size() * sizeof(float)), 0);
    const Floats taught = flat(reference.L);
    EXPECT_EQ(std::memcmp(learned.data(), taught.data(), taught.size() * sizeof(float)), 0);
}

// The product only finds candidates for the nearest. So this tries sizes at which its rounding
// exceeds the differences, many equal values, and numbers that are nearly zero or nearly too large.
TEST(MaplCodec, HasTheReferencesIndicesAndCodewords) {
    for (const Index rank : {1, 4, 24})
        for (const Quantization& of :
             {Quantization{.codewords = 1}, Quantization{.codewords = 5, .rounds = 3, .decay = 0.75},
              Quantization{.codewords = 300, .groups = rank, .rounds = 2},
              Quantization{.codewords = 64, .groups = rank > 1 ? 2 : 1}})
            for (const float step : {0.25F, 0.1F, 1e-30F, 1e-43F, 1e16F, 1e18F}) {
                const Settings settings = quantized(of, rank);
                const auto size =
                    static_cast<std::size_t>(rank) * 141; // tokens: one stretch, and part of another
                expect_the_references(settings, books_of(settings, step), drawn(size, 3, step));
                // Far from all codewords: they differ in the last bits.
                Floats far = drawn(size, 4, step);
                for (float& value : far)
                    value += 4096.0F * step;
                expect_the_references(settings, books_of(settings, step), far);
            }
}

TEST(MaplCodec, PackedIndicesComeBackInAsFewBytesAsTheyNeed) {
    std::mt19937_64 random(1);
    for (unsigned bits = 0; bits <= 16; ++bits)
        for (std::size_t count = 0; count < 20; ++count) {
            std::vector<Word> indices(count);
            for (Word& index : indices)
                index = static_cast<Word>(random() & ((1U << bits) - 1U));
            const std::size_t bytes = (count * bits + 7) / 8;
            std::vector<std::byte> packed(bytes + 1, std::byte{0xa5});
            pack_indices(indices, bits, packed.data());
            EXPECT_EQ(packed[bytes], std::byte{0xa5});
            std::vector<Word> back(count);
            unpack_indices(packed.data(), bits, back);
            EXPECT_EQ(back, indices) << bits;
        }
    std::byte three[2];
    pack_indices(std::vector<Word>{1, 2, 3, 4}, 3, three); // from the lowest bit on
    EXPECT_EQ(three[0], std::byte{0b11'010'001});
    EXPECT_EQ(three[1], std::byte{0b100'0});
}

/// The error with which a side's start is refused, if both sides got these states.
std::string told(const Settings& settings, const EndState& sends, const EndState& receives) {
    std::string lines[2];
    distributed::run_peers(2, [&](Peers& peers) {
        try {
            if (peers.rank() == 0)
                Sender(settings, sends, peers, 1);
            else
                Receiver(settings, receives, peers, 0);
        } catch (const Error& error) {
            lines[peers.rank()] = error.what();
        }
    });
    EXPECT_EQ(lines[0], lines[1]);
    return lines[0];
}

TEST(MaplCodec, CodebooksOfAnotherVersionAreRefusedOnBothSides) {
    const Settings settings = quantized({.codewords = 3}, 2);
    const EndState sends = first_state(settings, Side::sender, first_subspace(2, 2, 1), {});
    EndState receives = first_state(settings, Side::receiver, first_subspace(2, 2, 1), {});
    EXPECT_EQ(told(settings, sends, receives), "");
    receives.codebooks = first_codebooks(settings);
    EXPECT_EQ(told(settings, sends, receives), "");
    receives.codebooks.back() += 1.0F;
    EXPECT_EQ(
        told(settings, sends, receives),
        "the receiver, rank 1, has another codebook than the sender, rank 0; start both with the same");
}

TEST(MaplCodec, StatesThatCannotBeAreRefused) {
    const Settings settings = quantized({.codewords = 3}, 2);
    const EndState begun = first_state(settings, Side::sender, first_subspace(2, 2, 1), {});
    const auto refused = [&](const Floats& codebooks, const Floats& learned) {
        EndState state = begun;
        state.codebooks = codebooks;
        state.learned = learned;
        std::string line;
        distributed::run_peers(1, [&](Peers& peers) {
            try {
                Sender(settings, state, peers, 0);
            } catch (const Error& error) {
                line = error.what();
            }
        });
        return line;
    };
    EXPECT_EQ(refused(Floats(5), {}), "state: the codebook has 5 values; the settings make it 6");
    EXPECT_EQ(refused({}, {0, 0, 1, 1, std::nanf(""), 0}),
              "state: the learned codebook has a value that is not finite");
    EXPECT_EQ(refused({0, 1, 1, 1, 1, 1}, {}),
              "state: the first codeword of book 0 is not 0; it must be 0 and stays 0");
}

/// A receiver that waits for one micro-batch of two tokens, and what it ends with.
void receive_two(const Settings& settings, const EndState& state, Peers& peers, std::string& line) {
    Receiver receiver(settings, state, peers, 0);
    try {
        static_cast<void>(receiver.forward(0, 2));
    } catch (const distributed::Aborted& aborted) {
        line = aborted.what();
    }
}

// Codewords that would not be finite, and an index that no codeword has.
TEST(MaplCodec, WhatCannotBeDoesNotGetThrough) {
    const Settings settings = quantized({.codewords = 3, .decay = 0.0}, 1);
    const float most = std::numeric_limits<float>::max();
    EndState begun = first_state(settings, Side::receiver, Floats{1.0F}, {});
    begun.codebooks = {0.0F, most, 1.0F};
    std::string line;
    distributed::run_peers(2, [&](Peers& peers) {
        if (peers.rank() == 1)
            return receive_two(settings, begun, peers, line);
        EndState sends = begun;
        sends.m = {0.0F};
        Sender sender(settings, sends, peers, 1);
        std::string refused;
        try {
            sender.forward(0, Floats{most, most}, std::vector<Id>{0, 0}); // their sum is infinite
        } catch (const Error& error) {
            refused = error.what();
        }
        EXPECT_EQ(refused, "micro-batch 0 overflows when it is compressed; nothing was sent");
        EXPECT_EQ(sender.state().learned, begun.codebooks);
        const std::size_t bytes = index_bytes(settings, 2) + 2 + 3 * sizeof(float);
        const auto message = std::make_shared<std::vector<std::byte>>(bytes);
        message->front() = std::byte{0b1100};
        peers.send(distributed::Traffic::payload, 1, 0,
                   std::shared_ptr<const void>(message, message->data()), bytes);
    });
    EXPECT_EQ(line, "rank 0 sent the index 3; there are 3 codewords");
}

} // namespace
} // namespace truestep::distributed::mapl
