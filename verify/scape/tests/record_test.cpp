// Tests synthetic runs: parsed options, drawn gradients, injected values, refused steps and halts.
#include <truestep/verify/scape/record.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/verify/scape/trace.hpp>

#include "support.hpp"

namespace truestep::verify::scape {
namespace {

using support::contains;
using support::error_of;
using support::load;
using support::TemporaryFolder;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(ParseTensors, ReadsNamesSizesAndDense) {
    EXPECT_EQ(parse_tensors("wq:60"), (std::vector<problem::Tensor>{{"wq", 60, false}}));
    EXPECT_EQ(parse_tensors("wq:60,norm:5:dense,empty:0,a.b/c:1"),
              (std::vector<problem::Tensor>{
                  {"wq", 60, false}, {"norm", 5, true}, {"empty", 0, false}, {"a.b/c", 1, false}}));
}

TEST(ParseTensors, SaysWhatIsWrongAndHowToWriteIt) {
    for (const char* text :
         {"", "wq", "wq:", "wq:x", "wq:1.5", "wq:5:sparse", "wq:5:", "wq:5:dense:1", "wq: 5", "wq:5,",
          ",wq:5", "wq:5,,b:6", "wq:+5", "wq:0x10", "wq:99999999999999999999"}) {
        const std::string error = error_of([&] { static_cast<void>(parse_tensors(text)); });
        EXPECT_TRUE(contains(error, "--tensors has '")) << error;
        EXPECT_TRUE(contains(error, "name:size or name:size:dense")) << error;
    }
}

TEST(ParseInjection, ReadsStepRankCoordinateAndAnyValue) {
    const Injection injection = parse_injection("2:1:17:-1.5");
    EXPECT_EQ(injection.step, 2);
    EXPECT_EQ(injection.rank, 1);
    EXPECT_EQ(injection.index, 17);
    EXPECT_EQ(injection.value, -1.5F);
    EXPECT_TRUE(std::isnan(parse_injection("1:0:0:nan").value));
    EXPECT_EQ(parse_injection("1:0:0:-inf").value, -infinity);
    EXPECT_TRUE(std::signbit(parse_injection("1:0:0:-0").value));
    EXPECT_EQ(parse_injection("1:0:0:1e-45").value, std::numeric_limits<float>::denorm_min());
    EXPECT_EQ(parse_injection("1:0:0:7.2057594e16").value, 0x1p56F);
}

TEST(ParseInjection, SaysWhatIsWrongAndHowToWriteIt) {
    for (const char* text : {"", "1", "1:0:0", "1:0:0:", "1:0:0:x", "1:0:0:1:2", "x:0:0:1", "1:x:0:1",
                             "1:0:x:1", "1.5:0:0:1", "1:0:0:1e99", ":::", "1:0:0:1 "}) {
        const std::string error = error_of([&] { static_cast<void>(parse_injection(text)); });
        EXPECT_TRUE(contains(error, "--inject has '")) << error;
        EXPECT_TRUE(contains(error, "2:0:17:nan")) << error;
    }
}

class RecordTest : public testing::Test {
  protected:
    RecordTest() : path_(folder_ / "trace.safetensors") {}

    /// Every value of the results that a refused step must not change.
    static void expect_same_state(const TraceReader& trace, Index before, Index after) {
        for (const ResultKind& kind : result_kinds) {
            if (kind.intermediate || kind.is_mask)
                continue;
            for (int rank = 0; rank < (kind.per_rank ? trace.head().problem.workers : 1); ++rank)
                EXPECT_TRUE(compare(trace.values(kind, before, rank).value(),
                                    trace.values(kind, after, rank).value(), Level::exact())
                                .ok())
                    << kind.name << " of rank " << rank;
        }
    }

    TemporaryFolder folder_;
    std::filesystem::path path_;
};

TEST_F(RecordTest, TheSameOptionsMakeTheSameBytes) {
    const RecordOptions options = support::small_run();
    record(path_, options);
    record(folder_ / "again", options);
    EXPECT_EQ(load(path_), load(folder_ / "again"));
    RecordOptions other = options;
    other.seed = 8;
    record(folder_ / "other", other);
    EXPECT_NE(load(path_), load(folder_ / "other"));
}

TEST_F(RecordTest, LearningRatesLieOnAStraightLine) {
    RecordOptions options = support::small_run();
    options.learning_rate = 1.0;
    options.final_learning_rate = 0.0;
    record(path_, options);
    EXPECT_EQ(TraceReader(path_).head().learning_rate, (std::vector<double>{1.0, 0.75, 0.5, 0.25, 0.0}));
    options.steps = 1;
    record(path_, options);
    EXPECT_EQ(TraceReader(path_).head().learning_rate, std::vector<double>{1.0});
}

TEST_F(RecordTest, TheDensityHasOneEntryMoreThanSteps) {
    RecordOptions options = support::small_run();
    options.density = problem::DensitySchedule::linear(1.0, 0.5, 5);
    record(path_, options);
    const std::vector<double> density = TraceReader(path_).head().density;
    ASSERT_EQ(density.size(), 6U);
    for (std::size_t i = 0; i < density.size(); ++i)
        EXPECT_EQ(density[i], options.density.at(static_cast<Index>(i) + 1));
    record(path_, support::small_run(problem::Algorithm::adams));
    EXPECT_EQ(TraceReader(path_).head().density, std::vector<double>(6, 1.0)) << "AdamS is dense";
}

TEST_F(RecordTest, GradientsAreTheDrawnOnesButWhereAValueIsInjected) {
    RecordOptions options = support::small_run();
    options.injections = {{2, 1, 17, 0.25F}, {5, 2, 80, -0.0F}};
    record(path_, options);
    const TraceReader trace(path_);
    for (Index step = 1; step <= 5; ++step)
        for (int rank = 0; rank < 3; ++rank) {
            const std::vector<float> gradient = trace.gradient(step, rank);
            for (Index index = 0; index < 81; ++index) {
                float expected = gradient_value(options.data, options.seed, rank, step, index);
                for (const Injection& injection : options.injections)
                    if (injection.step == step && injection.rank == rank && injection.index == index)
                        expected = injection.value;
                ASSERT_EQ(ulp_distance(gradient[static_cast<std::size_t>(index)], expected), 0.0);
            }
        }
}

TEST_F(RecordTest, AnInjectionOutsideTheRunIsRefused) {
    for (const Injection& injection :
         {Injection{0, 0, 0, 1.0F}, Injection{6, 0, 0, 1.0F}, Injection{1, -1, 0, 1.0F},
          Injection{1, 3, 0, 1.0F}, Injection{1, 0, -1, 1.0F}, Injection{1, 0, 81, 1.0F}}) {
        RecordOptions options = support::small_run();
        options.injections = {injection};
        const std::string error = error_of([&] { record(path_, options); });
        EXPECT_TRUE(contains(error, "there are steps 1 to 5, ranks 0 to 2, coordinates 0 to 80")) << error;
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(RecordTest, ImpossibleSettingsAreRefused) {
    RecordOptions options = support::small_run();
    options.steps = 0;
    EXPECT_TRUE(contains(error_of([&] { record(path_, options); }), "--steps is 0"));
    options = support::small_run();
    options.problem.settings.beta1 = 1.0;
    EXPECT_TRUE(contains(error_of([&] { record(path_, options); }), "beta1 is 1"));
    EXPECT_TRUE(
        contains(error_of([&] { record(folder_ / "absent" / "trace", support::small_run()); }), "absent"));
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(RecordTest, ARefusedStepLeavesTheStateAndTheComingMask) {
    for (const float bad : {nan, infinity, -infinity, 0x1.000002p56F, -0x1.fffffep127F}) {
        RecordOptions options = support::small_run();
        options.injections = {{3, 2, 64, bad}};
        record(path_, options);
        const TraceReader trace(path_);
        expect_same_state(trace, 2, 3);
        const auto coming = trace.mask(kind_of(Result::next_mask), 2).value();
        EXPECT_EQ(trace.mask(kind_of(Result::mask), 3).value(), coming);
        EXPECT_EQ(trace.mask(kind_of(Result::next_mask), 3).value(), coming);
        EXPECT_EQ(trace.mask(kind_of(Result::mask), 4).value(), coming) << "the next good step uses it";
        EXPECT_EQ(trace.values(kind_of(Result::local), 3, 0).value(), std::vector<float>(81, 0.0F));
        EXPECT_EQ(trace.values(kind_of(Result::exchanged), 3, 0).value(), std::vector<float>(81, 0.0F));
        EXPECT_EQ(std::bit_cast<std::uint32_t>(trace.gradient(3, 2)[64]),
                  std::bit_cast<std::uint32_t>(bad));
    }
}

TEST_F(RecordTest, AfterARefusedStepTheRunGoesOnAsIfItHadNotBeen) {
    // The refused step does not count, so the good step after it is the third.
    RecordOptions options = support::small_run();
    options.final_learning_rate = options.learning_rate;
    options.injections = {{3, 2, 64, nan}};
    record(path_, options);
    RecordOptions without = options;
    without.injections.clear();
    without.steps = 3;
    for (int rank = 0; rank < 3; ++rank)
        for (Index index = 0; index < 81; ++index)
            without.injections.push_back(
                {3, rank, index, gradient_value(options.data, options.seed, rank, 4, index)});
    record(folder_ / "without", without);
    const TraceReader refused(path_);
    const TraceReader plain(folder_ / "without");
    for (const ResultKind& kind : result_kinds) {
        if (kind.is_mask) {
            EXPECT_EQ(refused.mask(kind, 4), plain.mask(kind, 3));
        } else {
            EXPECT_TRUE(compare(refused.values(kind, 4, 0).value(), plain.values(kind, 3, 0).value(),
                                Level::exact())
                            .ok())
                << kind.name;
        }
    }
}

TEST_F(RecordTest, ARefusedFirstStepLeavesTheBeginning) {
    RecordOptions options = support::small_run();
    options.injections = {{1, 0, 0, nan}};
    record(path_, options);
    const TraceReader trace(path_);
    EXPECT_EQ(trace.values(kind_of(Result::parameters), 1, 0).value(), trace.head().initial_parameters);
    EXPECT_EQ(trace.values(kind_of(Result::first_moment), 1, 0).value(), std::vector<float>(81, 0.0F));
    EXPECT_EQ(trace.mask(kind_of(Result::mask), 1).value(), std::vector<std::uint8_t>(11, 0))
        << "there is none yet";
    EXPECT_NE(trace.mask(kind_of(Result::mask), 2).value(), std::vector<std::uint8_t>(11, 0));
}

TEST_F(RecordTest, AGradientOfExactlyTheLimitIsTaken) {
    RecordOptions options = support::small_run();
    options.injections = {{2, 0, 3, 0x1p56F}};
    record(path_, options);
    const TraceReader trace(path_);
    EXPECT_NE(trace.values(kind_of(Result::parameters), 2, 0),
              trace.values(kind_of(Result::parameters), 1, 0));
}

TEST_F(RecordTest, AHaltingRunLeavesNoFileAndSaysWhere) {
    RecordOptions options = support::small_run();
    options.learning_rate = 1e300;
    const std::string error = error_of([&] { record(path_, options); });
    EXPECT_TRUE(error.starts_with(path_.string() + ": not written: halted after step 1")) << error;
    EXPECT_TRUE(contains(error, "tensor ")) << error;
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "neither the file nor a part of it";
}

TEST_F(RecordTest, AHaltingRunKeepsTheFileThatWasThere) {
    record(path_, support::small_run());
    const std::string before = load(path_);
    RecordOptions options = support::small_run();
    options.learning_rate = 1e300;
    static_cast<void>(error_of([&] { record(path_, options); }));
    EXPECT_EQ(load(path_), before);
}

TEST_F(RecordTest, ProgressNamesEveryStep) {
    RecordOptions options = support::small_run();
    std::vector<Index> seen;
    options.progress = [&](Index step, Index steps) {
        EXPECT_EQ(steps, 5);
        seen.push_back(step);
    };
    record(path_, options);
    EXPECT_EQ(seen, (std::vector<Index>{1, 2, 3, 4, 5}));
}

} // namespace
} // namespace truestep::verify::scape
