// Tests the hints on a failed run: masks of another step, and factors of the number of ranks.
#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/verify/scape/record.hpp>

#include "verify_trace_support.hpp"

namespace truestep::verify::scape {
namespace {

using support::contains;
using support::FileImage;

using Lines = std::vector<std::string>;

// Tests what the wrong values of a run have in common.

class HintsTest : public VerifyTraceTest {
  protected:
    static std::vector<float>& floats(FileImage& image, Result result, Index step, int rank = 0) {
        return std::get<std::vector<float>>(image.at(tensor_name(kind_of(result), step, rank)).data);
    }
    static std::vector<std::uint8_t>& mask(FileImage& image, Result result, Index step) {
        return std::get<std::vector<std::uint8_t>>(image.at(tensor_name(kind_of(result), step, 0)).data);
    }

    void scale(Result result, Index step, int rank, float factor, std::size_t values = 1000) const {
        change([&](FileImage& image) {
            for (float& value : floats(image, result, step, rank))
                if (value != 0.0F && values > 0) {
                    value *= factor;
                    --values;
                }
        });
    }

    void divide(Result result, Index step, int rank, float divisor) const {
        change([&](FileImage& image) {
            for (float& value : floats(image, result, step, rank))
                value /= divisor;
        });
    }

    [[nodiscard]] Lines hints(Level level = Level::exact(),
                              ReferenceStart from = ReferenceStart::recorded) const {
        return verify_from(path_, from, level).hints;
    }
};

TEST_F(HintsTest, OfARunThatIsRightThereIsNone) {
    record(path_, support::small_run());
    EXPECT_EQ(hints(), Lines{});
    EXPECT_EQ(hints(Level::rel()), Lines{});
}

TEST_F(HintsTest, AMaskWithoutTheDelayIsTheStepsOwnNextMask) {
    record(path_, support::small_run());
    change([](FileImage& image) {
        for (Index step = 2; step <= 5; ++step)
            mask(image, Result::mask, step) = mask(image, Result::next_mask, step);
    });
    for (const Level& level : {Level::exact(), Level::rel()})
        for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start}) {
            const Lines lines = hints(level, from);
            ASSERT_EQ(lines.size(), 1U) << name(level);
            EXPECT_EQ(lines.front().rfind("mask: what the step makes as its next_mask, in ", 0), 0U)
                << lines.front();
            EXPECT_TRUE(contains(lines.front(), "at 4 steps")) << lines.front();
        }
}

TEST_F(HintsTest, SoIsItWhereNoNextMaskIsRecorded) {
    record(path_, support::small_run());
    change([](FileImage& image) {
        image.at("step/0002/mask").data = image.at("step/0002/next_mask").data;
        image.drop("next_mask");
    });
    const Lines lines = hints();
    ASSERT_FALSE(lines.empty());
    EXPECT_TRUE(contains(lines.front(), "at 1 step: used, or recorded, without the delay of one step?"))
        << lines.front();
}

TEST_F(HintsTest, ANextMaskThatIsTheOneInUseIsRecordedLate) {
    record(path_, support::small_run());
    change([](FileImage& image) {
        for (Index step = 2; step <= 5; ++step)
            mask(image, Result::next_mask, step) = mask(image, Result::mask, step);
    });
    const Lines lines = hints();
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_EQ(lines.front().rfind("next_mask: the mask that the step used, in ", 0), 0U) << lines.front();
}

TEST_F(HintsTest, AMaskThatIsWrongOtherwiseOrNeverChangesIsNotTakenForIt) {
    record(path_, support::small_run());
    change([](FileImage& image) { mask(image, Result::mask, 3) = mask(image, Result::mask, 2); });
    EXPECT_EQ(hints(), Lines{}) << "a step late";
    record(path_, support::small_run());
    change([](FileImage& image) {
        for (Index step = 2; step <= 5; ++step)
            for (const Result result : {Result::mask, Result::next_mask})
                mask(image, result, step) = mask(image, Result::mask, 1);
    });
    for (const std::string& line : hints(Level::exact(), ReferenceStart::start))
        EXPECT_NE(line.rfind("mask: ", 0), 0U) << line;
    // Only in the first segment, [0, 27): a recorder's error would affect all.
    record(path_, support::small_run());
    change([](FileImage& image) {
        for (Index step = 2; step <= 5; ++step) {
            const std::vector<std::uint8_t>& next = mask(image, Result::next_mask, step);
            std::vector<std::uint8_t>& used = mask(image, Result::mask, step);
            std::copy_n(next.begin(), 3, used.begin());
            used[3] = static_cast<std::uint8_t>((used[3] & 0xF8U) | (next[3] & 0x07U));
        }
    });
    EXPECT_NE(verify_from(path_, ReferenceStart::recorded).status, Status::passed);
    EXPECT_EQ(hints(), Lines{});
}

TEST_F(HintsTest, AFactorThatIsTheNumberOfRanksIsTold) {
    for (const Level& level : {Level::exact(), Level::rel()}) {
        const std::string how = level.kind == LevelKind::exact ? "exactly " : "within their limits ";
        record(path_, support::small_run());
        scale(Result::first_moment, 3, 0, 3.0F);
        Lines lines = hints(level);
        ASSERT_EQ(lines.size(), 1U);
        EXPECT_EQ(lines.front().rfind("first_moment of step 3: ", 0), 0U) << lines.front();
        EXPECT_TRUE(contains(lines.front(), how + "3 times what they should be: a sum instead of a mean?"))
            << lines.front();
        record(path_, support::small_run());
        divide(Result::residual, 2, 1, 3.0F);
        lines = hints(level);
        ASSERT_EQ(lines.size(), 1U);
        EXPECT_TRUE(contains(lines.front(), how + "1/3 of what they should be: divided by the number of "
                                                  "ranks, where it is one rank's own?"))
            << lines.front();
    }
}

TEST_F(HintsTest, AFactorThatIsNotTheirNumberOrOfFewValuesIsNotTold) {
    record(path_, support::small_run());
    scale(Result::first_moment, 3, 0, 2.0F);
    EXPECT_EQ(hints(), Lines{}) << "twice, of three ranks";
    record(path_, support::small_run());
    scale(Result::first_moment, 3, 0, 3.0F, 3);
    EXPECT_EQ(hints(), Lines{}) << "three values are an accident";
    record(path_, support::small_run(problem::Algorithm::scape, {}, 1));
    scale(Result::first_moment, 3, 0, 1.5F);
    EXPECT_EQ(hints(), Lines{}) << "of one rank";
}

TEST_F(HintsTest, AStepThatIsSoManyTimesTooLongIsALearningRate) {
    for (const float factor : {3.0F, 1.0F / 3.0F}) {
        record(path_, support::small_run());
        change([factor](FileImage& image) {
            const std::vector<float> before = floats(image, Result::parameters, 1);
            std::vector<float>& after = floats(image, Result::parameters, 2);
            for (std::size_t i = 0; i < after.size(); ++i)
                after[i] = before[i] + factor * (after[i] - before[i]);
        });
        for (const Level& level : {Level::exact(), Level::rel()}) {
            const Lines lines = hints(level);
            ASSERT_EQ(lines.size(), 1U);
            EXPECT_EQ(lines.front().rfind("parameters of step 2: ", 0), 0U) << lines.front();
            EXPECT_TRUE(contains(lines.front(), factor > 1.0F ? "went 3 times as far as they should"
                                                              : "went 1/3 as far as they should"))
                << lines.front();
        }
    }
}

} // namespace
} // namespace truestep::verify::scape
