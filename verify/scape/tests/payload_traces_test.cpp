// Tests traces whose payloads were rounded (section 21).
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/verify/scape/record.hpp>
#include <truestep/verify/scape/trace.hpp>

#include "verify_trace_support.hpp"

namespace truestep::verify::scape {
namespace {

using support::set_element;

void expect_passes(const std::filesystem::path& path) {
    for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start})
        for (const Level& level : {Level::exact(), Level::rel()}) {
            const TraceVerdict verdict = verify_from(path, from, level);
            EXPECT_EQ(verdict.status, Status::passed) << text_report(verdict);
        }
}

TEST_F(VerifyTraceTest, AGoodTraceOfBf16PassesAndNeitherItsRoundingNorItsRestMayBeOff) {
    RecordOptions options = support::small_run();
    options.problem.settings.payload = problem::Payload::bf16;
    options.intermediates = true;
    record(path_, options);
    expect_passes(path_);
    // The rounding error of bf16 in a mean is far more than fp32 may have, unless its bound is
    // lost.
    const support::SafetensorsFile file(path_);
    const std::vector<float> exchanged = file.read_f32("step/0002/exchanged");
    Index off = 0;
    Index noticed = 0;
    for (Index i = 0; i < static_cast<Index>(exchanged.size()); ++i) {
        const float M = exchanged[static_cast<std::size_t>(i)];
        if (M == 0.0F)
            continue;
        record(path_, options);
        set_element(path_, "step/0002/exchanged", i, M * (1.0F + 0x1p-9F));
        ++off;
        noticed += verify_from(path_, ReferenceStart::recorded, Level::rel()).first ? 1 : 0;
    }
    EXPECT_GT(off, 10);
    EXPECT_GE(noticed, off - off / 10);
}

TEST_F(VerifyTraceTest, AGoodTraceOfMeansThatAreRoundedPassesAndWhatTheyLoseIsTheOwners) {
    for (const auto payload : {problem::Payload::bf16_both, problem::Payload::e5m2_both}) {
        RecordOptions options = support::small_run();
        options.problem.settings.payload = payload;
        options.intermediates = true;
        record(path_, options);
        expect_passes(path_);
        // The same run without rounded means has other values.
        options.problem.settings.payload = problem::format_of(payload);
        const auto other = path_.parent_path() / (path_.filename().string() + ".other");
        record(other, options);
        const std::vector<float> means = support::SafetensorsFile(other).read_f32("step/0001/exchanged");
        std::filesystem::remove(other);
        options.problem.settings.payload = payload;
        const std::vector<float> rounded = support::SafetensorsFile(path_).read_f32("step/0001/exchanged");
        std::size_t i = 0;
        while (i < means.size() && means[i] == rounded[i])
            ++i;
        ASSERT_LT(i, means.size()) << "no mean was rounded";
        set_element(path_, "step/0001/exchanged", static_cast<Index>(i), means[i]);
        const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded, Level::exact());
        ASSERT_TRUE(verdict.first);
        EXPECT_EQ(verdict.first->index, static_cast<Index>(i));
    }
}

TEST_F(VerifyTraceTest, AGoodTraceOfE5m2PassesAndOneOfAnotherScaleDoesNot) {
    RecordOptions options = support::small_run();
    options.problem.settings.payload = problem::Payload::e5m2;
    options.intermediates = true;
    for (const auto data : {problem::DataClass::normal, problem::DataClass::wide}) {
        options.data = data;
        record(path_, options);
        expect_passes(path_);
    }
    // Another scale sends whole what the own one lets saturate: the residual of the greatest value
    // shows it.
    const support::SafetensorsFile file(path_);
    const std::vector<float> local = file.read_f32("step/0002/local/rank0");
    const std::vector<float> before = file.read_f32("step/0002/residual/rank0");
    std::size_t lost = 0;
    for (std::size_t i = 0; i < before.size(); ++i)
        if (before[i] != 0.0F && before[i] != local[i]) {
            record(path_, options);
            set_element(path_, "step/0002/residual/rank0", static_cast<Index>(i), 0.0F);
            EXPECT_TRUE(verify_from(path_, ReferenceStart::recorded, Level::exact()).first);
            ++lost;
        }
    EXPECT_GT(lost, 0U) << "nothing was rounded";
}

/// small_run()'s 81 coordinates, 22 of which the sample holds.
class ScaleInTraces : public VerifyTraceTest {
  protected:
    void record_part(const std::string& sample, Index begin,
                     problem::DataClass data = problem::DataClass::normal, double clip_norm = 0.0) const {
        RecordOptions options = support::small_run();
        options.problem.settings.payload = problem::Payload::e5m2;
        options.problem.settings.clip_norm = clip_norm;
        options.data = data;
        options.sample = sample;
        options.begin = begin;
        record(path_, options);
    }

    /// Records a whole run with E of every step, changed by `change_one`.
    void record_with_scales(const std::function<void(std::vector<int>&)>& change_one) const {
        record_part("wq,norm,mlp", 0); // all of it, so that E is there
        const TraceReader trace(path_);
        TraceHead head = trace.head();
        head.problem = *head.sampled;
        head.sampled.reset();
        head.extent = {};
        change_one(head.exponent);
        const auto path = folder_ / "whole.safetensors";
        TraceWriter writer(path, head, false);
        for (Index step = 1; step <= head.steps(); ++step) {
            const auto vector = [](const std::vector<float>& values) {
                return Vector<float>(
                    Eigen::Map<const Vector<float>>(values.data(), static_cast<Index>(values.size())));
            };
            PerRank<float> gradients;
            StepResults<float> results;
            for (int rank = 0; rank < head.problem.workers; ++rank) {
                gradients.push_back(vector(trace.gradient(step, rank)));
                results.residual.push_back(vector(*trace.values(kind_of(Result::residual), step, rank)));
            }
            results.first_moment = vector(*trace.values(kind_of(Result::first_moment), step, 0));
            results.parameters = vector(*trace.values(kind_of(Result::parameters), step, 0));
            const Index size = head.problem.layout.size();
            results.mask = to_coordinates(*trace.mask(kind_of(Result::mask), step), size);
            results.next_mask = to_coordinates(*trace.mask(kind_of(Result::next_mask), step), size);
            writer.write_step(gradients, results);
        }
        writer.finish();
        std::filesystem::rename(path, path_);
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

    void set_exponent(std::size_t entry, double E) const {
        change([&](support::FileImage& image) {
            std::get<std::vector<double>>(image.at("exponent").data)[entry] = E;
        });
    }

    [[nodiscard]] std::vector<int> exponents() const { return TraceReader(path_).head().exponent; }
};

TEST_F(ScaleInTraces, PartsOfARightRunPass) {
    for (const auto data : {problem::DataClass::normal, problem::DataClass::wide,
                            problem::DataClass::subnormal, problem::DataClass::zeros})
        for (const char* sample : {"", "wq@28,mlp@0", "0.3:2", "norm"})
            for (const Index begin : {Index{0}, Index{1}, Index{4}}) {
                record_part(sample, begin, data, begin == 1 ? 0.5 : 0.0);
                expect_all(Status::passed);
            }
}

TEST_F(ScaleInTraces, AScaleThatASampleCannotHaveIsFound) {
    record_part("wq@28,mlp@0", 2);
    set_exponent(2, exponents()[2] - 20);
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
    ASSERT_TRUE(verdict.first.has_value());
    EXPECT_EQ(verdict.first->step, 3);
    EXPECT_EQ(verdict.first->phase, "exchange");
    EXPECT_EQ(verdict.first->result, "exponent");
    EXPECT_TRUE(support::contains(verdict.first->note, "what this sample holds of the step before has"))
        << verdict.first->note;
    EXPECT_TRUE(support::contains(text_report(verdict), "the payload's scale is taken from the trace"));
    expect_all(Status::failed);
}

/// A possible scale has to round as the recorded values are rounded.
TEST_F(ScaleInTraces, AnotherScaleInASampleShowsInWhatItRounds) {
    record_part("wq@28,mlp@0", 2, problem::DataClass::wide);
    set_exponent(1, exponents()[1] + 25);
    const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
    ASSERT_TRUE(verdict.first.has_value());
    EXPECT_EQ(verdict.first->step, 2);
    EXPECT_TRUE(verdict.first->phase == "exchange" || verdict.first->phase == "residual")
        << text_report(verdict);
    expect_all(Status::failed);
}

/// Saturated and rounded parts are in the residual, in the whole and in a sample.
TEST_F(ScaleInTraces, ARestThatIsLostInASampleIsFound) {
    record_part("wq@28,mlp@0", 2);
    const support::SafetensorsFile file(path_);
    const std::vector<float> local = file.read_f32("step/0002/local/rank1");
    const std::vector<float> rest = file.read_f32("step/0002/residual/rank1");
    std::size_t lost = 0;
    for (std::size_t i = 0; i < rest.size(); ++i)
        if (rest[i] != 0.0F && rest[i] != local[i]) {
            record_part("wq@28,mlp@0", 2);
            set_element(path_, "step/0002/residual/rank1", static_cast<Index>(i), 0.0F);
            const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
            ASSERT_TRUE(verdict.first.has_value());
            EXPECT_EQ(verdict.first->phase, "residual");
            EXPECT_EQ(verdict.first->rank, 1);
            ++lost;
        }
    EXPECT_GT(lost, 0U) << "nothing was rounded";
}

TEST_F(ScaleInTraces, OfAWholeRunEveryScaleIsHeldAgainstTheStepsBefore) {
    record_with_scales([](std::vector<int>&) {});
    EXPECT_EQ(exponents().size(), 5U);
    expect_all(Status::passed);
    for (const std::size_t entry : {0U, 1U, 3U})
        for (const int by : {-1, 1}) {
            record_with_scales([&](std::vector<int>& E) { E[entry] += by; });
            const TraceVerdict verdict = verify_from(path_, ReferenceStart::recorded);
            ASSERT_TRUE(verdict.first.has_value());
            EXPECT_EQ(verdict.first->step, static_cast<Index>(entry) + 1);
            EXPECT_EQ(verdict.first->result, "exponent");
            expect_all(Status::failed);
        }
    // In the middle of a run the first scale is accepted as recorded, but no other.
    record_part("", 3);
    set_exponent(3, exponents()[3] + 1);
    EXPECT_EQ(verify_from(path_, ReferenceStart::recorded).first->result, "exponent");
    EXPECT_TRUE(support::contains(text_report(verify_from(path_, ReferenceStart::recorded)),
                                  "the payload's scale of the first step is taken from the trace"));
}

TEST_F(ScaleInTraces, APartWithoutItsScaleIsRefusedInALine) {
    const auto error = [&] {
        return support::error_of([&] { static_cast<void>(verify_from(path_, ReferenceStart::recorded)); });
    };
    record_part("", 3);
    change([](support::FileImage& image) { image.drop("exponent"); });
    EXPECT_TRUE(support::contains(error(), "tensor exponent is missing")) << error();
    for (const double bad : {0.5, 128.0, -127.0, std::nan("")}) {
        record_part("norm", 0);
        set_exponent(1, bad);
        EXPECT_TRUE(support::contains(error(), "exponent, entry 1, is ")) << error();
    }
}

/// A refused step has no scale, and does not change that of the next.
TEST_F(ScaleInTraces, ARefusedStepHasNone) {
    RecordOptions options = support::small_run();
    options.problem.settings.payload = problem::Payload::e5m2;
    options.sample = "wq@28,mlp@0";
    options.injections.push_back({2, 1, 36, std::numeric_limits<float>::quiet_NaN()});
    record(path_, options);
    EXPECT_EQ(exponents()[1], 0);
    expect_all(Status::passed);
}

} // namespace
} // namespace truestep::verify::scape
