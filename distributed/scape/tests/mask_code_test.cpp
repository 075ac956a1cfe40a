// Tests that mask codes decode to the same bits, are the smallest, and refuse corrupt ones.
#include <truestep/distributed/scape/mask_code.hpp>

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace truestep::distributed::scape {
namespace {

using Parts = std::vector<MaskCode::Part>;

/// Selects k coordinates anywhere in [begin, end).
void select_some(Mask& mask, Index begin, Index end, Index k, std::mt19937& random) {
    std::vector<Index> all;
    for (Index index = begin; index < end; ++index)
        all.push_back(index);
    std::shuffle(all.begin(), all.end(), random);
    for (Index i = 0; i < k; ++i)
        mask.set(all[static_cast<std::size_t>(i)]);
}

std::vector<std::uint8_t> encoded(const Parts& parts, const Mask& mask) {
    std::vector<std::uint8_t> code(MaskCode::bytes(parts) + 1, 0xa5);
    MaskCode::encode(parts, mask, code.data());
    EXPECT_EQ(code.back(), 0xa5) << "wrote beyond its bytes";
    return code;
}

void expect_same_bits(const Mask& a, const Mask& b) {
    for (std::size_t word = 0; word < a.word_count(); ++word)
        ASSERT_EQ(a.words()[word], b.words()[word]) << "word " << word;
}

TEST(MaskCode, DecodesToTheSameBitsAtEverySizeAndCount) {
    std::mt19937 random(7);
    for (const Index n : {1, 2, 7, 8, 9, 63, 64, 65, 254, 255, 256, 257, 510, 511, 1000, 5000})
        for (const Index k : {Index{1}, n / 100 + 1, n / 9 + 1, n / 2 + 1, n - 1, n}) {
            if (k < 1 || k > n)
                continue;
            Mask mask(n + 77);
            select_some(mask, 31, 31 + n, k, random);
            const Parts parts{{31, 31 + n, k}};
            Mask decoded(mask.size());
            MaskCode::decode(parts, encoded(parts, mask).data(), decoded);
            expect_same_bits(mask, decoded);
        }
}

TEST(MaskCode, SegmentsThatShareWordsStayApart) {
    std::mt19937 random(8);
    const Parts parts{{0, 3, 3}, {3, 10, 2}, {10, 11, 1}, {11, 700, 5}, {700, 1300, 300}, {1300, 1301, 1}};
    Mask mask(1301);
    for (const auto& part : parts)
        select_some(mask, part.begin, part.end, part.k, random);
    Mask decoded(mask.size());
    MaskCode::decode(parts, encoded(parts, mask).data(), decoded);
    expect_same_bits(mask, decoded);
    // Decodes over another mask.
    decoded.set_range(0, decoded.size());
    MaskCode::decode(parts, encoded(parts, mask).data(), decoded);
    expect_same_bits(mask, decoded);
}

TEST(MaskCode, AFullBlockAndAnEmptyBlockAreTold) {
    Mask mask(255 * 40);
    mask.set_range(255, 510); // one block full, all others empty
    const Parts parts{{0, mask.size(), 255}};
    ASSERT_EQ(code_of(mask.size(), 255), SegmentCode::positions);
    Mask decoded(mask.size());
    MaskCode::decode(parts, encoded(parts, mask).data(), decoded);
    expect_same_bits(mask, decoded);
}

TEST(MaskCode, TakesTheSmallestCode) {
    EXPECT_EQ(coded_bytes(1000, 1000), 0U);
    EXPECT_EQ(coded_bytes(1000, 500), 125U);
    EXPECT_EQ(coded_bytes(1000, 10), 4U + 10U);
    // The crossover, near 12 %.
    EXPECT_EQ(code_of(100'000, 12'000), SegmentCode::positions);
    EXPECT_EQ(code_of(100'000, 12'200), SegmentCode::bitmap);
    // At 1 %, 0.0139 bytes a parameter, against 0.125.
    EXPECT_LE(static_cast<double>(coded_bytes(10'000'000, 100'000)) / 1e7, 0.01393);
}

TEST(MaskCode, RefusesWhatIsNoCodeOfTheseSegments) {
    std::mt19937 random(9);
    for (const auto& [n, k] : {std::pair<Index, Index>{1003, 10}, {1003, 500}}) {
        Mask mask(n);
        select_some(mask, 0, n, k, random);
        const Parts parts{{0, n, k}};
        const auto good = encoded(parts, mask);
        int refused = 0;
        int other = 0;
        for (std::size_t byte = 0; byte + 1 < good.size(); ++byte)
            for (unsigned bit = 0; bit < 8; ++bit) {
                auto bad = good;
                bad[byte] = static_cast<std::uint8_t>(bad[byte] ^ (1U << bit));
                Mask decoded(n);
                try {
                    MaskCode::decode(parts, bad.data(), decoded);
                    // What still decodes is another mask of k bits: the code has no redundancy to
                    // detect it.
                    decoded.count();
                    EXPECT_EQ(decoded.selected(), k);
                    ++other;
                } catch (const CorruptMask& error) {
                    ++refused;
                    const bool is_set = (good[byte] >> bit & 1U) != 0;
                    const char* const why = static_cast<Index>(8 * byte + bit) >= n ? "a bit beyond the end"
                                            : is_set                                ? ": 499 bits"
                                                                                    : ": 501 bits";
                    if (code_of(n, k) == SegmentCode::bitmap) {
                        EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
                    }
                }
            }
        EXPECT_GT(refused, other / 8);
    }
}

} // namespace
} // namespace truestep::distributed::scape
