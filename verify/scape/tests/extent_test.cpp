// Tests traces that hold a part of a run: chosen segments, or the steps after some step.
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/verify/report.hpp>
#include <truestep/verify/scape/trace.hpp>

#include "verify_trace_support.hpp"

namespace truestep::verify::scape {
namespace {

using support::contains;
using support::error_of;
using support::FileImage;

/// small_run()'s segments: 0 wq [0, 27), 1 wq [27, 30), 2 norm [30, 35), 3 mlp [35, 54), 4 mlp [54, 81).
class ExtentTest : public VerifyTraceTest {
  protected:
    void record_part(const std::string& sample, Index begin = 0, double clip_norm = 0.0,
                     problem::Algorithm algorithm = problem::Algorithm::scape) const {
        RecordOptions options = support::small_run(algorithm);
        options.problem.settings.clip_norm = clip_norm;
        options.sample = sample;
        options.begin = begin;
        record(path_, options);
    }

    /// Checks the trace at each level, from each start, whole and by pieces.
    void expect_all(Status status) const {
        for (const Level& level : {Level::exact(), Level::rel()})
            for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start})
                for (const Index piece : {Index{1}, Index{1000}}) {
                    VerifyOptions options;
                    options.level = level;
                    options.from = from;
                    options.piece = piece;
                    const TraceVerdict verdict = verify_trace(path_, options);
                    EXPECT_EQ(verdict.status, status) << text_report(verdict);
                }
    }

    [[nodiscard]] std::string told() const {
        return text_report(verify_from(path_, ReferenceStart::recorded));
    }
};

TEST_F(ExtentTest, ASampleOfARightRunPasses) {
    for (const char* sample : {"wq@28,mlp@0", "0.3", "0.3:2", "norm", "1", "wq@0,mlp@45"})
        for (const Index begin : {Index{0}, Index{1}, Index{4}}) {
            record_part(sample, begin);
            expect_all(Status::passed);
        }
    record_part("wq", 0, 0.0, problem::Algorithm::adams);
    expect_all(Status::passed);
    record_part("wq", 3, 0.0, problem::Algorithm::adams);
    expect_all(Status::passed);
}

TEST_F(ExtentTest, ASampleHasTheValuesOfTheWhole) {
    record_part("");
    const TraceReader whole(path_);
    const auto gradient = whole.gradient(3, 1);
    const auto mask = *whole.mask(kind_of(Result::mask), 3);
    record_part("wq@28,mlp@0");
    const TraceReader held(path_);
    const auto part = held.gradient(3, 1);
    const auto bits = *held.mask(kind_of(Result::mask), 3);
    ASSERT_EQ(part.size(), 22U);
    for (Index i = 0; i < 22; ++i) {
        const Index place = i < 3 ? 27 + i : 32 + i;
        EXPECT_EQ(part[static_cast<std::size_t>(i)], gradient[static_cast<std::size_t>(place)]);
        const auto bit = [](const auto& of, Index at) {
            return (of[static_cast<std::size_t>(at / 8)] >> static_cast<unsigned>(at % 8)) & 1U;
        };
        EXPECT_EQ(bit(bits, i), bit(mask, place));
    }
}

TEST_F(ExtentTest, TheVerdictSaysWhatWasSampledAndTellsPlacesInTheWholeModel) {
    record_part("wq@28,mlp@0");
    EXPECT_TRUE(contains(told(), "81 parameters in 3 tensors"));
    EXPECT_TRUE(contains(told(), "sampled: 22 of 81 coordinates, 2 of 5 segments (wq, index 27 to 29; mlp, "
                                 "index 0 to 18)"))
        << told();
    support::set_element(path_, "step/0002/parameters", 1, 0.75F);
    expect_first(verify_from(path_, ReferenceStart::recorded),
                 {2, Phase::update, "parameters", all_ranks, 28, "wq", 28});
    expect_all(Status::failed);
    record_part("wq@28,mlp@0");
    support::set_element(path_, "step/0003/residual/rank2", 21, 0.75F);
    expect_first(verify_from(path_, ReferenceStart::recorded),
                 {3, Phase::residual, "residual", 2, 53, "mlp", 18});
    record_part("wq@28,mlp@0");
    support::flip_mask_bit(path_, "step/0002/next_mask", 3);
    const TraceVerdict mask = verify_from(path_, ReferenceStart::recorded);
    expect_first(mask, {2, Phase::mask, "next_mask", 1, 35, "mlp", 0});
    // A bit beyond the last coordinate is beyond that of the model.
    record_part("wq@28,mlp@0");
    support::flip_mask_bit(path_, "step/0002/mask", 22);
    EXPECT_TRUE(contains(told(), "beyond the last parameter (bit 81)"));
}

TEST_F(ExtentTest, AMistakeOutsideOfTheSampleDoesNotShowAndInsideItDoes) {
    // The run itself has one wrong coordinate, which a sample holds or not.
    for (const auto& [sample, status] :
         {std::pair{"wq@0,mlp@30", Status::failed}, std::pair{"wq@28,mlp@0", Status::passed}}) {
        RecordOptions options = support::small_run();
        support::record_with(path_, options, [](Index step, verify::scape::Run<float>& run) {
            if (step == 3) {
                auto state = run.state();
                state.w[60] += 1.0F;
                run.restore(std::move(state));
            }
        });
        // The part that record --sample would hold.
        const TraceReader whole(path_);
        TraceHead head = whole.head();
        head.extent.sample = choose_sample(head.problem, sample);
        head.sampled = head.problem;
        head.problem = part(*head.sampled, ranges_of(head.extent.sample, *head.sampled));
        const problem::Layout& held = head.problem.layout;
        const auto cut = [&](const std::vector<float>& all) {
            Vector<float> values(held.size());
            for (Index i = 0; i < held.size(); ++i)
                values[i] = all[static_cast<std::size_t>(held.place(i))];
            return values;
        };
        const Vector<float> initial = cut(head.initial_parameters);
        head.initial_parameters.assign(initial.data(), initial.data() + initial.size());
        const auto part_path = folder_ / "part.safetensors";
        TraceWriter writer(part_path, head, false);
        for (Index step = 1; step <= head.steps(); ++step) {
            PerRank<float> gradients;
            StepResults<float> results;
            for (int rank = 0; rank < 3; ++rank) {
                gradients.push_back(cut(whole.gradient(step, rank)));
                results.residual.push_back(cut(*whole.values(kind_of(Result::residual), step, rank)));
            }
            results.first_moment = cut(*whole.values(kind_of(Result::first_moment), step, 0));
            results.parameters = cut(*whole.values(kind_of(Result::parameters), step, 0));
            for (const Result result : {Result::mask, Result::next_mask}) {
                Coordinates& into = result == Result::mask ? results.mask : results.next_mask;
                const auto all = to_coordinates(*whole.mask(kind_of(result), step), 81);
                for (Index i = 0; i < held.size(); ++i)
                    if (std::ranges::binary_search(all, held.place(i)))
                        into.push_back(i);
            }
            writer.write_step(gradients, results);
        }
        writer.finish();
        EXPECT_EQ(verify_from(part_path, ReferenceStart::recorded).status, status) << sample;
    }
}

TEST_F(ExtentTest, TheNormOfASampleIsTheRecordedOne) {
    for (const Index begin : {Index{0}, Index{2}}) {
        record_part("wq@28,mlp@0", begin, 0.25);
        expect_all(Status::passed);
    }
    EXPECT_TRUE(contains(told(), "the clip norm is taken from the trace"));
    // Another norm is another factor.
    change([](FileImage& image) { std::get<std::vector<double>>(image.at("norm").data)[2] *= 1.001; });
    const TraceVerdict other = verify_from(path_, ReferenceStart::recorded);
    ASSERT_TRUE(other.first.has_value());
    EXPECT_EQ(other.first->step, 3);
    EXPECT_EQ(other.first->phase, "clip");
    // A norm that is impossible for the whole is reported as such.
    change([](FileImage& image) { std::get<std::vector<double>>(image.at("norm").data)[0] = 1e-3; });
    const TraceVerdict impossible = verify_from(path_, ReferenceStart::recorded);
    ASSERT_TRUE(impossible.first.has_value());
    EXPECT_EQ(impossible.first->step, 1);
    EXPECT_EQ(impossible.first->result, "norm");
    EXPECT_TRUE(contains(impossible.first->note, "is recorded as 0.001, and what this sample holds"));
    change([](FileImage& image) { std::get<std::vector<double>>(image.at("norm").data)[0] = -1.0; });
    EXPECT_TRUE(contains(error_of([&] { static_cast<void>(told()); }), "norm, entry 0, is -1"));
    change([](FileImage& image) { image.drop("norm"); });
    EXPECT_TRUE(contains(error_of([&] { static_cast<void>(told()); }), "norm"));
}

TEST_F(ExtentTest, ATraceBeginsInMidRun) {
    record_part("", 4);
    expect_all(Status::passed);
    EXPECT_TRUE(contains(told(), "5 steps after step 4"));
    EXPECT_TRUE(contains(told(), "step 1 here is step 5"));
    // Its steps are those of the whole run, bit by bit.
    const TraceReader part(path_);
    const auto of_part = part.values(kind_of(Result::parameters), 1, 0);
    const auto whole_path = folder_ / "whole.safetensors";
    RecordOptions options = support::small_run();
    options.steps = 9;
    record(whole_path, options);
    EXPECT_EQ(of_part, TraceReader(whole_path).values(kind_of(Result::parameters), 5, 0));
}

TEST_F(ExtentTest, EveryPartOfTheStateThatItBeginsWithMatters) {
    for (const char* tensor : {"initial/parameters", "initial/residual/rank0", "initial/residual/rank2"}) {
        record_part("", 4);
        support::set_element(path_, tensor, 44, 0.75F);
        const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
        EXPECT_EQ(verdict.status, Status::failed) << tensor;
        EXPECT_EQ(verdict.first->step, 1);
    }
    record_part("", 4);
    support::set_element(path_, "initial/first_moment", 31, 0.75F); // of norm, which is always on the mask
    EXPECT_EQ(verify_from(path_, ReferenceStart::recorded).status, Status::failed);
    record_part("", 4);
    support::flip_mask_bit(path_, "initial/mask", 12);
    EXPECT_EQ(verify_from(path_, ReferenceStart::recorded).first->result, "mask");
    // The number of steps is in the bias corrections.
    record_part("", 4);
    change([](FileImage& image) { image.replace_in_config("\"begin\":4", "\"begin\":5"); });
    const TraceVerdict later = verify_from(path_, ReferenceStart::recorded);
    ASSERT_TRUE(later.first.has_value());
    EXPECT_EQ(later.first->phase, "update");
}

TEST_F(ExtentTest, BadInputIsToldInALine) {
    const auto error_after = [&](const std::string& old_part, const std::string& new_part) {
        record_part("wq@28,mlp@0", 4);
        change([&](FileImage& image) { image.replace_in_config(old_part, new_part); });
        return error_of([&] { static_cast<void>(told()); });
    };
    EXPECT_TRUE(contains(error_after("[1,3]", "[3,1]"), "sample: entry 1 is 1"));
    EXPECT_TRUE(contains(error_after("[1,3]", "[]"), "sample is empty"));
    EXPECT_TRUE(contains(error_after("[1,3]", "[1,5]"), "0 to 4"));
    EXPECT_TRUE(contains(error_after("[1,3]", "[-1,3]"), "entry 0 is not the number of a segment"));
    EXPECT_TRUE(contains(error_after("[1,3]", "\"wq\""), "'sample' is not a list"));
    EXPECT_TRUE(contains(error_after("[1,3]", "[1,4]"), "initial/parameters is F32[22]"));
    EXPECT_TRUE(contains(error_after("\"begin\":4", "\"begin\":-4"), "begin is -4"));
    for (const char* tensor : {"initial/first_moment", "initial/residual/rank1", "initial/mask"}) {
        record_part("", 4);
        change([&](FileImage& image) { image.drop(tensor); });
        EXPECT_TRUE(contains(error_of([&] { static_cast<void>(told()); }), tensor));
    }
    record_part("", 4);
    support::set_element(path_, "initial/residual/rank1", 7, std::numeric_limits<float>::quiet_NaN());
    EXPECT_TRUE(contains(error_of([&] { static_cast<void>(told()); }),
                         "initial/residual/rank1, entry 7, is nan; it must be finite"));
}

TEST_F(ExtentTest, ARefusedStepIsToldByItsPlaceInTheModel) {
    RecordOptions options = support::small_run();
    options.sample = "wq@28,mlp@0";
    options.injections.push_back({2, 1, 36, std::numeric_limits<float>::quiet_NaN()});
    record(path_, options);
    EXPECT_EQ(verify_from(path_, ReferenceStart::recorded).status, Status::passed);
    support::set_element(path_, "step/0002/parameters", 5, 0.75F);
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
    ASSERT_TRUE(verdict.first.has_value());
    EXPECT_EQ(verdict.first->phase, "check");
    EXPECT_TRUE(contains(verdict.first->note, "tensor mlp, index 1 (coordinate 36)"))
        << verdict.first->note;
    EXPECT_EQ(verdict.first->index, 36);
}

} // namespace
} // namespace truestep::verify::scape
