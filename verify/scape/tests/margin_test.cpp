// Tests how close a choice was that a mask made differently.
#include <bit>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include <truestep/problem/data.hpp>
#include <truestep/problem/text.hpp>

#include "support.hpp"

namespace truestep::verify::scape {
namespace {

using support::contains;

/// The last segment, [54, 81) of rank 2, at step 3.
class MarginTest : public testing::Test {
  protected:
    MarginTest() : path_(folder_ / "trace.safetensors") {
        record(path_, support::small_run());
        for (Index i = 54; i < 81; ++i) {
            Index& nearest = chosen(i) ? taken_ : left_;
            if (nearest < 0 || (chosen(i) ? score(i) < score(nearest) : score(i) > score(nearest)))
                nearest = i;
        }
    }

    [[nodiscard]] bool chosen(Index i) const { return support::mask_bit(path_, mask_, i); }
    [[nodiscard]] float score(Index i) const {
        return std::abs(support::element<float>(path_, "step/0003/local/rank2", i));
    }
    [[nodiscard]] std::string note(const Level& level) const {
        VerifyOptions options;
        options.level = level;
        options.from = ReferenceStart::recorded;
        const TraceVerdict verdict = verify_trace(path_, options);
        EXPECT_TRUE(verdict.first.has_value());
        EXPECT_EQ(verdict.first->result, "next_mask");
        return verdict.first->note;
    }

    const std::string mask_ = "step/0003/next_mask";
    support::TemporaryFolder folder_;
    std::filesystem::path path_;
    Index taken_ = -1; ///< the least one that is taken
    Index left_ = -1;  ///< the greatest one that is left
};

TEST_F(MarginTest, TellsBothScoresAndHowFarTheyAreApart) {
    support::flip_mask_bit(path_, mask_, taken_);
    support::flip_mask_bit(path_, mask_, left_);
    const auto ulps =
        std::bit_cast<std::uint32_t>(score(taken_)) - std::bit_cast<std::uint32_t>(score(left_));
    const std::string both = "the mask leaves out coordinate " + std::to_string(taken_) + ", |c| " +
                             shortest(score(taken_)) + ", and has " + std::to_string(left_) + ", |c| " +
                             shortest(score(left_)) + ": a margin of ";
    EXPECT_EQ(note(Level::exact()), both + shortest(static_cast<double>(ulps)) + " ULP");
    const std::string at_rel = note(Level::rel());
    EXPECT_TRUE(contains(at_rel, ": a margin of ")) << at_rel;
    EXPECT_TRUE(at_rel.ends_with(" times the bound on their rounding")) << at_rel;
}

TEST_F(MarginTest, ANumberTooManyHasNone) {
    support::flip_mask_bit(path_, mask_, left_);
    EXPECT_EQ(note(Level::exact()), "");
    EXPECT_EQ(note(Level::rel()), "");
}

TEST_F(MarginTest, EqualScoresAreSaidToBe) {
    RecordOptions options = support::small_run();
    options.data = problem::DataClass::zeros;
    record(path_, options);
    // Replaces a taken coordinate by a later one with the same score.
    Index later = 80;
    while (chosen(later) || score(later) == 0.0F)
        --later;
    Index earlier = later;
    while (earlier > 54 && (!chosen(earlier) || score(earlier) != score(later)))
        --earlier;
    ASSERT_TRUE(chosen(earlier) && score(earlier) == score(later));
    support::flip_mask_bit(path_, mask_, earlier);
    support::flip_mask_bit(path_, mask_, later);
    EXPECT_TRUE(note(Level::exact()).ends_with(": the same score, and the lower coordinate comes first"));
}

} // namespace
} // namespace truestep::verify::scape
