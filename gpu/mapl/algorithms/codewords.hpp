#pragma once

#include "algorithms/rows.hpp"

// Z as indices of codewords (section 23.1), bit for bit. One block a tile, except for Nearest.

namespace truestep::gpu::mapl::boundary {

/// A book, and which of all indices belong to it: every `stride`-th.
struct Book {
    Index words; ///< K
    Index width; ///< r / Gr
    const float* codewords;
    std::uint32_t* indices; ///< the first token's
    Index stride;           ///< all books
};

/// A group's columns of Z, transposed: a column's tokens lie side by side, as threads do.
struct TakeColumns {
    struct Arguments {
        Index tokens;
        Index width;
        Index rank;
        const float* from; ///< the first of the columns
        float* to;         ///< r / Gr x N
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_matrix(block, a.tokens * a.width, a.width, [&](Index, Index token, Index column) {
            a.to[column * a.tokens + token] = a.from[token * a.rank + column];
        });
    }
};

/// The nearest codeword of each token, by the specification's own sum; the lowest index of several
/// that are as near. A block does `tokens_at_once` tokens, and each thread compares one token with
/// all codewords.
struct Nearest {
    static constexpr Index tokens_at_once = problem::tunable<Index>("nearest_tokens");
    static Index blocks(Index tokens) { return (tokens + tokens_at_once - 1) / tokens_at_once; }

    struct Arguments {
        Index tokens;
        const float* left; ///< r / Gr x N
        Book book;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Index begin = block.index() * tokens_at_once;
        const Index end = least(begin + tokens_at_once, a.tokens);
        block.phase([&](int thread) {
            for (Index token = begin + thread; token < end; token += block.threads()) {
                Index best = 0;
                float nearest = distance(a, token, 0);
                TRUESTEP_ROLLED
                for (Index word = 1; word < a.book.words; ++word) {
                    const float off = distance(a, token, word);
                    if (off < nearest) {
                        nearest = off;
                        best = word;
                    }
                }
                a.book.indices[token * a.book.stride] = static_cast<std::uint32_t>(best);
            }
        });
    }

  private:
    TRUESTEP_BLOCK static float distance(const Arguments& a, Index token, Index word) {
        const float* const codeword = a.book.codewords + word * a.book.width;
        float sum = 0.0F;
        for (Index i = 0; i < a.book.width; ++i) {
            const float off = a.left[i * a.tokens + token] - codeword[i];
            sum += off * off;
        }
        return sum;
    }
};

/// L := rho L + (1 - rho) mean, over the values for which each codeword was chosen, in token order.
/// A thread computes a whole value of the book.
struct Learn {
    struct Arguments {
        Index tokens;
        const float* left;
        Book book; ///< the old L
        float decay;
        float rest;
        float* to;
        std::uint32_t* not_finite;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_matrix(block, a.book.words * a.book.width, a.book.width, [&](Index at, Index word, Index i) {
            float sum = 0.0F;
            std::uint32_t count = 0;
            for (Index token = 0; token < a.tokens; ++token)
                if (static_cast<Index>(a.book.indices[token * a.book.stride]) == word) {
                    sum += a.left[i * a.tokens + token];
                    ++count;
                }
            float learned = a.book.codewords[at];
            if (word > 0 && count > 0)
                learned = a.decay * learned + a.rest * (sum / static_cast<float>(count));
            a.to[at] = learned;
            if (is_not_finite(learned))
                block.set_bits(*a.not_finite, 1U);
        });
    }
};

/// Subtracts the chosen codewords: the next round encodes the rest.
struct SubtractWords {
    struct Arguments {
        Index tokens;
        float* left;
        Book book;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_matrix(block, a.tokens * a.book.width, a.tokens, [&](Index at, Index i, Index token) {
            const Index word = a.book.indices[token * a.book.stride];
            a.left[at] = a.left[at] - a.book.codewords[word * a.book.width + i];
        });
    }
};

/// Packs indices of a few bits each, one behind the other from the lowest bit of the first byte on.
/// A thread makes a byte.
struct PackIndices {
    struct Arguments {
        Index bytes;
        Index count;
        Index bits;
        const std::uint32_t* indices;
        std::uint8_t* to;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.bytes, [&](Index at) {
            const Index begin = 8 * at;
            std::uint32_t byte = 0;
            for (Index i = begin / a.bits; i < a.count && i * a.bits < begin + 8; ++i) {
                const Index shift = i * a.bits - begin;
                byte |= shift < 0 ? a.indices[i] >> static_cast<unsigned>(-shift)
                                  : a.indices[i] << static_cast<unsigned>(shift);
            }
            a.to[at] = static_cast<std::uint8_t>(byte);
        });
    }
};

/// Unpacks indices, and finds the first one that is beyond the codebook.
struct UnpackIndices {
    struct Arguments {
        Index count;
        Index bits;
        Index words;
        const std::uint8_t* from;
        std::uint32_t* indices;
        Index* first_wrong; ///< lowered
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.count, [&](Index at) {
            std::uint32_t index = 0;
            for (Index bit = 0; bit < a.bits;) {
                const Index place = at * a.bits + bit;
                const Index some = least(8 - place % 8, a.bits - bit);
                const std::uint32_t byte = a.from[place / 8];
                index |=
                    (byte >> static_cast<unsigned>(place % 8) & ((1U << static_cast<unsigned>(some)) - 1U))
                    << static_cast<unsigned>(bit);
                bit += some;
            }
            a.indices[at] = index;
            if (static_cast<Index>(index) >= a.words)
                block.lower(*a.first_wrong, at);
        });
    }
};

/// Decodes: sums the chosen codewords in the order of the rounds, from +0.
struct SumWords {
    struct Arguments {
        Index tokens;
        Index rank;
        Index width;
        Index rounds;
        Index books;
        Index words;
        const float* codebooks;
        const std::uint32_t* indices;
        float* z;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_matrix(block, a.tokens * a.rank, a.rank, [&](Index at, Index token, Index column) {
            const Index first = column / a.width * a.rounds;
            const Index i = column % a.width;
            float sum = 0.0F;
            for (Index book = first; book < first + a.rounds; ++book) {
                const Index word = a.indices[token * a.books + book];
                sum += a.codebooks[(book * a.words + word) * a.width + i];
            }
            a.z[at] = sum;
        });
    }
};

/// Moves some codewords of every book into a message, or back to their places. A message is not
/// aligned.
struct MoveWordsArguments {
    Index books;
    Index words; ///< of a book
    Index width;
    Index some; ///< of them travel,
    const std::uint32_t* which;
    float* codebooks;
    std::uint8_t* message;
};

template <bool Out>
struct MoveWords {
    using Arguments = MoveWordsArguments;
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_matrix(block, a.books * a.some * a.width, a.width, [&](Index at, Index word, Index i) {
            const Index book = word / a.some;
            float& value = a.codebooks[(book * a.words + a.which[word % a.some]) * a.width + i];
            std::uint8_t* const bytes = a.message + 4 * at;
            std::uint32_t bits = Out ? std::bit_cast<std::uint32_t>(value) : 0U;
            TRUESTEP_UNROLL
            for (unsigned byte = 0; byte < 4; ++byte)
                if constexpr (Out)
                    bytes[byte] = static_cast<std::uint8_t>(bits >> (8U * byte));
                else
                    bits |= static_cast<std::uint32_t>(bytes[byte]) << (8U * byte);
            if constexpr (!Out)
                value = std::bit_cast<float>(bits);
        });
    }
};
struct GatherWords : MoveWords<true> {};
struct ScatterWords : MoveWords<false> {};

} // namespace truestep::gpu::mapl::boundary
