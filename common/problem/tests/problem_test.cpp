// Tests the legal ranges of SCAPE's and AdamS's settings, and the words of their choices.
#include <truestep/problem/problem.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem {
namespace {

using ::testing::ThrowsMessage;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

class ProblemTest : public ::testing::Test {
  protected:
    [[nodiscard]] auto checking() const {
        return [this] { check(problem_); };
    }

    Problem problem_ = make_problem(Algorithm::scape, 3, Layout({{"a", 7}, {"norm", 2, true}}),
                                    PartitionRule::by_shard, {});
    HyperParameters& settings_ = problem_.settings;
};

TEST_F(ProblemTest, IsMadeWithTheSegmentsOfItsRule) {
    EXPECT_EQ(problem_.segments,
              segments(problem_.layout, ranges(problem_.layout, 3, PartitionRule::by_shard)));
    EXPECT_EQ(make_problem(Algorithm::scape, 3, problem_.layout, PartitionRule::by_tensor, {}).segments,
              segments(problem_.layout, ranges(problem_.layout, 3, PartitionRule::by_tensor)));
}

TEST_F(ProblemTest, IsCheckedWhenMade) {
    settings_.beta1 = 1.0;
    EXPECT_THROW(static_cast<void>(make_problem(Algorithm::scape, 3, problem_.layout,
                                                PartitionRule::by_shard, settings_)),
                 Error);
    EXPECT_THROW(
        static_cast<void>(make_problem(Algorithm::scape, 0, problem_.layout, PartitionRule::by_shard, {})),
        Error);
}

TEST_F(ProblemTest, APayloadHasItsFormatAndBytes) {
    struct Expected {
        Payload format;
        bool rounds_mean;
        std::size_t bytes, bytes_of_mean;
    };
    const std::vector<std::pair<Payload, Expected>> all{{Payload::fp32, {Payload::fp32, false, 4, 4}},
                                                        {Payload::bf16, {Payload::bf16, false, 2, 4}},
                                                        {Payload::e5m2, {Payload::e5m2, false, 1, 4}},
                                                        {Payload::bf16_both, {Payload::bf16, true, 2, 2}},
                                                        {Payload::e5m2_both, {Payload::e5m2, true, 1, 1}}};
    for (const auto& [payload, expected] : all) {
        EXPECT_EQ(format_of(payload), expected.format) << name(payload);
        EXPECT_EQ(rounds_mean(payload), expected.rounds_mean) << name(payload);
        EXPECT_EQ(value_bytes(payload), expected.bytes) << name(payload);
        EXPECT_EQ(mean_bytes(payload), expected.bytes_of_mean) << name(payload);
    }
}

TEST_F(ProblemTest, AParameterGroupHasItsRateAndDecay) {
    EXPECT_EQ(LearningRates(0.5).of(3), 0.5);
    EXPECT_EQ(LearningRates(std::vector{0.5, 0.25, 0.125}).of(1), 0.25);
    EXPECT_EQ(settings_.weight_decay_of(2), settings_.weight_decay);
    settings_.more_weight_decays = {0.3, 0.4};
    EXPECT_EQ(settings_.weight_decay_of(0), settings_.weight_decay);
    EXPECT_EQ(settings_.weight_decay_of(2), 0.4);
}

TEST_F(ProblemTest, OnlyDenseTensorsLeaveNothingToSelect) {
    EXPECT_FALSE(has_no_sparse_segment(problem_));
    EXPECT_TRUE(has_no_sparse_segment(make_problem(
        Algorithm::scape, 3, Layout({{"a", 7, true}, {"b", 2, true}}), PartitionRule::by_shard, {})));
}

TEST_F(ProblemTest, TheDefaultsAreLegal) {
    EXPECT_NO_THROW(check(problem_));
}

TEST_F(ProblemTest, ANumberBeyondItsLimitsIsRefused) {
    struct Limited {
        std::string key;
        double HyperParameters::*member;
        std::string legal;
        std::vector<double> values; ///< the first is legal
    };
    const std::string of_epsilon = "more than 0, as an fp32 number too, and finite";
    // Half the smallest subnormal of fp32 ties to zero.
    const double tie = 0x1p-150;
    for (const auto& [key, member, legal, values] : std::vector<Limited>{
             {"beta1", &HyperParameters::beta1, "in [0, 1)", {0.0, 1.0, -0.1, infinity, -infinity, nan}},
             {"beta2", &HyperParameters::beta2, "in [0, 1)", {0.0, 1.0, -0.1, infinity, -infinity, nan}},
             {"epsilon",
              &HyperParameters::epsilon,
              of_epsilon,
              {std::nextafter(tie, 1.0), 0.0, -1e-8, 1e-46, tie, infinity, nan}},
             {"weight_decay",
              &HyperParameters::weight_decay,
              "0 or more and finite",
              {0.0, -0.1, infinity, nan}},
             {"clip_norm",
              &HyperParameters::clip_norm,
              "0 (no clipping) or more and finite",
              {0.0, -1.0, infinity, nan}}}) {
        settings_.*member = values.front();
        EXPECT_NO_THROW(check(problem_));
        for (const double value : values)
            if (value != values.front()) { // a NaN is unequal
                settings_.*member = value;
                EXPECT_THAT(checking(),
                            ThrowsMessage<Error>(key + " is " + shortest(value) + "; it must be " + legal));
            }
        settings_ = {};
    }
}

TEST_F(ProblemTest, EachParameterGroupHasItsWeightDecayOrAllHaveOne) {
    HyperParameters settings;
    parse_weight_decays("0.25", settings);
    EXPECT_EQ(settings.weight_decay_of(0), 0.25);
    EXPECT_EQ(settings.weight_decay_of(1), 0.25);
    parse_weight_decays("0.1,0", settings);
    EXPECT_EQ(settings.weight_decay_of(0), 0.1);
    EXPECT_EQ(settings.weight_decay_of(1), 0.0);
    const Layout grouped({{"a", 3}, {"b", 2, false, 1}});
    const auto make = [](const Layout& layout, const HyperParameters& of_groups) {
        return make_problem(Algorithm::scape, 2, layout, PartitionRule::by_shard, of_groups);
    };
    EXPECT_NO_THROW(static_cast<void>(make(grouped, settings)));
    EXPECT_NO_THROW(static_cast<void>(make(grouped, {})));
    EXPECT_THAT(
        [&] {
            static_cast<void>(make(Layout({{"a", 3}}), settings));
        },
        ThrowsMessage<Error>(
            ::testing::HasSubstr("weight_decay has 2 numbers, and the tensors are of 1 parameter group;")));
    EXPECT_THAT(
        [&] {
            static_cast<void>(make(Layout({{"a", 3}, {"b", 2, false, 2}}), {}));
        },
        ThrowsMessage<Error>(::testing::HasSubstr("parameter group 1 has no tensor, and group 2 has one")));
    settings.more_weight_decays = {-1.0};
    EXPECT_THAT([&] { static_cast<void>(make(grouped, settings)); },
                ThrowsMessage<Error>(::testing::HasSubstr("weight_decay is -1; it must be 0 or more")));
    EXPECT_THAT([&] { parse_weight_decays("0.1,", settings); },
                ThrowsMessage<Error>(::testing::HasSubstr("weight_decay is '0.1,'; give a number")));
}

TEST_F(ProblemTest, AdamsHasNoClipping) {
    problem_.algorithm = Algorithm::adams;
    EXPECT_NO_THROW(check(problem_));
    settings_.clip_norm = 1.0;
    EXPECT_THAT(
        checking(),
        ThrowsMessage<Error>("clip_norm is 1; algorithm adams has no clipping (section 3), set it to 0"));
}

TEST_F(ProblemTest, AnImpossibleNumberOfWorkersIsRefused) {
    problem_.workers = 0;
    EXPECT_THAT(checking(), ThrowsMessage<Error>("workers is 0; it must be 1 to 1048576"));
}

TEST_F(ProblemTest, SegmentsThatDoNotFitAreRefused) {
    problem_.segments.pop_back();
    EXPECT_THAT(
        checking(),
        ThrowsMessage<Error>("segments: they end at 7 of 9 parameters; they must cover every parameter"));
}

TEST_F(ProblemTest, ASegmentOfARankThatIsNotThereIsRefused) {
    problem_.workers = 2;
    EXPECT_THAT(checking(),
                ThrowsMessage<Error>("segments: segment 2 [6, 7) has owner 2; an owner is 0 to 1"));
}

template <class Choice>
void expect_words(const std::vector<std::pair<Choice, std::string_view>>& words) {
    for (const auto& [value, text] : words) {
        EXPECT_EQ(name(value), text);
        EXPECT_EQ(parse<Choice>(text), value);
    }
}

TEST(WordsTest, EveryChoiceHasAWordThatReadsBack) {
    expect_words<Algorithm>({{Algorithm::scape, "scape"}, {Algorithm::adams, "adams"}});
    expect_words<BiasCorrection>({{BiasCorrection::none, "none"},
                                  {BiasCorrection::adam, "adam"},
                                  {BiasCorrection::momentum, "momentum"}});
    expect_words<DecayOrder>({{DecayOrder::first, "first"}, {DecayOrder::together, "together"}});
    expect_words<KRounding>({{KRounding::floor, "floor"}, {KRounding::ceil, "ceil"}});
    expect_words<PartitionRule>(
        {{PartitionRule::by_shard, "by_shard"}, {PartitionRule::by_tensor, "by_tensor"}});
}

TEST(WordsTest, AnUnknownWordIsAnsweredWithThoseThatWouldDo) {
    EXPECT_THAT([] { static_cast<void>(parse<Algorithm>("adam")); },
                ThrowsMessage<Error>("algorithm is 'adam'; it must be one of scape, adams"));
    EXPECT_THAT([] { static_cast<void>(parse<BiasCorrection>("")); },
                ThrowsMessage<Error>("bias_correction is ''; it must be one of none, adam, momentum"));
    EXPECT_THAT([] { static_cast<void>(parse<DecayOrder>("First")); },
                ThrowsMessage<Error>("decay_order is 'First'; it must be one of first, together"));
    EXPECT_THAT([] { static_cast<void>(parse<KRounding>("round")); },
                ThrowsMessage<Error>("k_rounding is 'round'; it must be one of floor, ceil"));
    EXPECT_THAT([] { static_cast<void>(parse<PartitionRule>("by_shard ")); },
                ThrowsMessage<Error>("partition is 'by_shard '; it must be one of by_shard, by_tensor"));
}

TEST(WordsTest, AValueThatIsNoChoiceHasNoName) {
    EXPECT_THAT([] { static_cast<void>(name(static_cast<Algorithm>(2))); },
                ThrowsMessage<Error>("algorithm: not one of the known values"));
}

} // namespace
} // namespace truestep::problem
