// Compares counts of bits, and the codes in which they travel, with their definitions.
#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernel_support.hpp"

namespace truestep::distributed::host {
namespace {

using Words = std::vector<std::uint64_t>;

/// A segment with a bit beyond it on both sides, which must not change.
struct Segment {
    Index begin;
    Index end;
    Mask mask; ///< bits of the segment alone
    Words others;

    Segment(std::mt19937_64& generator, Index at, Index n, double density)
        : begin(at), end(at + n), mask(random_mask(generator, at + n + 70, density)),
          others(mask.word_count(), 0) {
        for (Index i = 0; i < mask.size(); ++i)
            if (i < begin || i >= end) {
                const auto word = static_cast<std::size_t>(i / 64);
                others[word] |= mask.words()[word] & (std::uint64_t{1} << static_cast<unsigned>(i % 64));
                mask.words()[word] &= ~(std::uint64_t{1} << static_cast<unsigned>(i % 64));
            }
        mask.count();
    }
    [[nodiscard]] Words all() const {
        Words result = others;
        for (std::size_t i = 0; i < result.size(); ++i)
            result[i] |= mask.words()[i];
        return result;
    }
    /// The words before decoding: other segments' bits, and anything in the segment's own words.
    [[nodiscard]] Words before() const {
        Words result = others;
        for (Index word = begin / 64 + 1; word < (end - 1) / 64; ++word)
            result[static_cast<std::size_t>(word)] =
                0xa5a5'5a5a'0ff0'f00fU + static_cast<std::uint64_t>(word);
        return result;
    }
    /// Sets all bits of a stretch, from the coordinate `at` of the segment on.
    void add_lump(Index at, Index size) {
        mask.set_range(begin + at, begin + at + size);
        mask.count();
    }
    [[nodiscard]] Index k() const { return mask.selected(); }
    [[nodiscard]] Index blocks() const { return (end - begin + position_block - 1) / position_block; }
};

/// Bytes before a page that must not be touched.
struct Code {
    explicit Code(Index bytes) : room((bytes + 3) / 4) {
        data = reinterpret_cast<std::uint8_t*>(room.data()) + room.size() * 4 - bytes;
    }
    explicit Code(const std::vector<std::uint8_t>& bytes) : Code(static_cast<Index>(bytes.size())) {
        std::ranges::copy(bytes, data);
    }
    Guarded room;
    std::uint8_t* data;
};

std::vector<std::uint8_t> positions_of(const Segment& segment) {
    std::vector<std::uint8_t> counts(static_cast<std::size_t>(segment.blocks()), 0);
    std::vector<std::uint8_t> code;
    for (Index i = segment.begin; i < segment.end; ++i)
        if (segment.mask.test(i)) {
            ++counts[static_cast<std::size_t>((i - segment.begin) / position_block)];
            code.push_back(static_cast<std::uint8_t>((i - segment.begin) % position_block));
        }
    code.insert(code.begin(), counts.begin(), counts.end());
    return code;
}

std::vector<std::uint8_t> bitmap_of(const Segment& segment) {
    std::vector<std::uint8_t> code(static_cast<std::size_t>((segment.end - segment.begin + 7) / 8), 0);
    for (Index i = 0; i < segment.end - segment.begin; ++i)
        if (segment.mask.test(segment.begin + i)) {
            auto& byte = code[static_cast<std::size_t>(i / 8)];
            byte = static_cast<std::uint8_t>(byte | 1U << static_cast<unsigned>(i % 8));
        }
    return code;
}

class BitsTest : public EachVariant {
  protected:
    /// Segments of many sizes, begins and densities: blocks, words and batches of blocks end
    /// everywhere.
    template <class Check>
    static void each_segment(const Check& check) {
        std::mt19937_64 generator(11);
        for (const Index n :
             {1, 2, 8, 63, 64, 65, 254, 255, 256, 510, 511, 1020, 16319, 16320, 16321, 40'000})
            for (const Index begin : {0, 1, 7, 31, 63, 64, 130})
                for (const double density : {0.0, 0.002, 0.01, 0.03, 0.1, 0.12, 0.3, 0.9, 1.0})
                    check(Segment(generator, begin, n, density));
    }

    static bool decodes_positions(const Segment& segment, const std::vector<std::uint8_t>& bytes, Index k,
                                  Words& words) {
        Code code(bytes);
        return decode_positions(code.data, code.data + segment.blocks(), segment.begin, segment.end, k,
                                words.data());
    }
};
INSTANTIATE_TEST_SUITE_P(Variants, BitsTest, ::testing::ValuesIn(supported_variants()), variant_name);

TEST_P(BitsTest, PositionsGoThereAndBack) {
    each_segment([](const Segment& segment) {
        const auto expected = positions_of(segment);
        Code code(static_cast<Index>(expected.size()));
        const Words words = segment.all();
        encode_positions(words.data(), segment.begin, segment.end, code.data, code.data + segment.blocks(),
                         code.data + expected.size());
        ASSERT_EQ(std::vector<std::uint8_t>(code.data, code.data + expected.size()), expected)
            << segment.end - segment.begin << " from " << segment.begin << ", k " << segment.k();
        Words decoded = segment.before();
        ASSERT_TRUE(decodes_positions(segment, expected, segment.k(), decoded));
        ASSERT_EQ(decoded, segment.all())
            << segment.end - segment.begin << " from " << segment.begin << ", k " << segment.k();
    });
}

TEST_P(BitsTest, BitmapsGoThereAndBack) {
    each_segment([](const Segment& segment) {
        const auto expected = bitmap_of(segment);
        Code code(static_cast<Index>(expected.size()));
        const Words words = segment.all();
        encode_bitmap(words.data(), segment.begin, segment.end, code.data);
        ASSERT_EQ(std::vector<std::uint8_t>(code.data, code.data + expected.size()), expected);
        Words decoded = segment.before();
        ASSERT_TRUE(decode_bitmap(code.data, segment.begin, segment.end, segment.k(), decoded.data()));
        ASSERT_EQ(decoded, segment.all());
        EXPECT_FALSE(
            decode_bitmap(code.data, segment.begin, segment.end, segment.k() + 1, segment.before().data()));
    });
}

/// Replaces each byte of a code by each other value. An accepted code gives k ascending bits;
/// anything else is refused, and words beyond the segment's are never touched.
TEST_P(BitsTest, TakesNoCodeOfOtherBits) {
    std::mt19937_64 generator(12);
    for (const auto& [density, lump] : {std::pair{0.006, 0}, {0.02, 0}, {0.1, 0}, {0.01, 70}, {0.04, 40}}) {
        Segment segment(generator, 37, 420, density);
        segment.add_lump(270, lump);
        const auto good = positions_of(segment);
        Index refused = 0;
        for (std::size_t byte = 0; byte < good.size(); ++byte)
            for (int value = 0; value < 256; ++value) {
                auto bad = good;
                bad[byte] = static_cast<std::uint8_t>(value);
                Words words = segment.before();
                if (!decodes_positions(segment, bad, segment.k(), words)) {
                    ++refused;
                    continue;
                }
                Segment taken = segment;
                for (std::size_t i = 0; i < words.size(); ++i)
                    taken.mask.words()[i] = words[i] & ~segment.others[i];
                taken.mask.count();
                ASSERT_EQ(taken.k(), segment.k());
                ASSERT_EQ(positions_of(taken), bad);
            }
        EXPECT_GT(refused, static_cast<Index>(good.size()) * 128);
    }
}

/// Blocks that have more positions than most, in segments of several batches: the variants change
/// their method at 8, 16 and 32.
TEST_P(BitsTest, LumpsGoThereAndBack) {
    std::mt19937_64 generator(14);
    for (const double density : {0.004, 0.02, 0.06, 0.11})
        for (const Index begin : {0, 5, 63}) {
            Segment segment(generator, begin, 36'000, density);
            for (const Index size :
                 {7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 100, 254, 255, 256, 300})
                segment.add_lump(255 * static_cast<Index>(generator() % 138), size);
            const auto expected = positions_of(segment);
            Code code(static_cast<Index>(expected.size()));
            const Words words = segment.all();
            encode_positions(words.data(), segment.begin, segment.end, code.data,
                             code.data + segment.blocks(), code.data + expected.size());
            ASSERT_EQ(std::vector<std::uint8_t>(code.data, code.data + expected.size()), expected);
            Words decoded = segment.before();
            ASSERT_TRUE(decodes_positions(segment, expected, segment.k(), decoded));
            ASSERT_EQ(decoded, words);
        }
}

/// All variants report damage anywhere in a long code as plain code does, byte by byte.
TEST_P(BitsTest, DamageIsSeenAsByPlainCode) {
    const Variant here = GetParam();
    std::mt19937_64 generator(15);
    for (const double density : {0.006, 0.02, 0.05, 0.11}) {
        Segment segment(generator, 9, 36'000, density);
        for (int lump = 0; lump < 6; ++lump)
            segment.add_lump(static_cast<Index>(generator() % 35'000), 20 + 30 * lump);
        const auto good = positions_of(segment);
        int refused = 0;
        for (int time = 0; time < 150; ++time) {
            auto bad = good;
            const auto positions = static_cast<std::size_t>(segment.blocks());
            const auto byte = positions + generator() % (good.size() - positions);
            if (time % 3 == 0) { // to a count, and from another
                ++bad[generator() % positions];
                --bad[generator() % positions];
            } else if (time % 3 == 1) {
                bad[byte] = static_cast<std::uint8_t>(generator());
            } else if (byte + 1 < good.size()) {
                std::swap(bad[byte], bad[byte + 1]);
            }
            Words words = segment.before();
            Words expected = segment.before();
            const bool taken = decodes_positions(segment, bad, segment.k(), words);
            use_variant(Variant::plain);
            ASSERT_EQ(taken, decodes_positions(segment, bad, segment.k(), expected)) << "time " << time;
            use_variant(here);
            if (taken) {
                ASSERT_EQ(words, expected);
            }
            refused += taken ? 0 : 1;
        }
        EXPECT_GT(refused, 60);
    }
}

TEST_P(BitsTest, CountsWhatIsSet) {
    std::mt19937_64 generator(13);
    for (const Index words : {0, 1, 3, 8, 9, 64, 200}) {
        Words a;
        Words b;
        Index in_a = 0;
        Index in_both = 0;
        for (Index i = 0; i < words; ++i) {
            a.push_back(generator());
            b.push_back(generator());
            for (unsigned bit = 0; bit < 64; ++bit) {
                in_a += static_cast<Index>((a.back() >> bit) & 1U);
                in_both += static_cast<Index>((a.back() >> bit) & (b.back() >> bit) & 1U);
            }
        }
        EXPECT_EQ(count_common(a.data(), b.data(), words), in_both);
        EXPECT_EQ(count_common(a.data(), a.data(), words), in_a);
        Mask mask(std::max<Index>(1, words * 64));
        std::ranges::copy(a, mask.words());
        mask.count();
        EXPECT_EQ(mask.selected(), in_a);
    }
}

} // namespace
} // namespace truestep::distributed::host
