// Tests which difference of two traces is named first, and which traces are not comparable.
#include <truestep/verify/diff.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/verify/report.hpp>
#include <truestep/verify/scape/record.hpp>
#include <truestep/verify/scape/trace.hpp>

#include "support.hpp"

namespace truestep::verify::scape {
namespace {

using support::contains;
using support::element;
using support::error_of;
using support::FileImage;
using support::set_element;
using support::TemporaryFolder;

class DiffTest : public testing::Test {
  protected:
    DiffTest() : a_(folder_ / "a.safetensors"), b_(folder_ / "b.safetensors") {
        record(a_, support::small_run());
        record(b_, support::small_run());
    }

    template <class Change>
    void change_b(Change change) const {
        FileImage image(b_);
        change(image);
        image.save(b_);
    }

    [[nodiscard]] TraceDifference diff() const { return diff_traces(TraceReader(a_), TraceReader(b_)); }
    [[nodiscard]] std::string text() const { return text_report(diff(), a_.string(), b_.string()); }

    TemporaryFolder folder_;
    std::filesystem::path a_;
    std::filesystem::path b_;
};

void expect_divergence(const std::optional<Divergence>& divergence, Index step, const std::string& phase,
                       const std::string& result, int rank, Index coordinate) {
    ASSERT_TRUE(divergence.has_value());
    EXPECT_EQ(divergence->step, step);
    EXPECT_EQ(divergence->phase, phase);
    EXPECT_EQ(divergence->result, result);
    EXPECT_EQ(divergence->rank, rank);
    EXPECT_EQ(divergence->index, coordinate);
}

TEST_F(DiffTest, TheSameBitsAreTheSame) {
    const TraceDifference difference = diff();
    EXPECT_TRUE(difference.same());
    // Local and residual vectors of three ranks; two masks, mean, gradient, moment and parameters.
    EXPECT_EQ(difference.compared, 5 * 81 * (2 * 3 + 6));
    EXPECT_EQ(support::last_line(text()),
              "same: " + std::to_string(difference.compared) + " result values, every bit");
}

TEST_F(DiffTest, WhoMadeATraceIsNoDifference) {
    change_b([](FileImage& image) { image.metadata["source"] = "somebody else"; });
    EXPECT_TRUE(diff().same());
}

TEST_F(DiffTest, TheFirstResultThatDiffersIsNamed) {
    const auto value = element<float>(b_, "step/0004/parameters", 33);
    set_element(b_, "step/0004/parameters", 33, std::nextafter(value, 10.0F));
    set_element(b_, "step/0005/parameters", 1, 9.0F);
    const TraceDifference difference = diff();
    EXPECT_FALSE(difference.same());
    EXPECT_TRUE(difference.settings.empty());
    EXPECT_FALSE(difference.input.has_value());
    expect_divergence(difference.result, 4, "update", "parameters", Divergence::all_ranks, 33);
    EXPECT_EQ(difference.result->comparison.greatest_ulps, 1.0);
    EXPECT_EQ(difference.result->comparison.first.front().expected, value) << "A counts as expected";
    EXPECT_TRUE(contains(
        text(), "first divergence: step 4, phase update, parameters (the same on all ranks), tensor "
                "norm, index 3 (coordinate 33)"));
    EXPECT_EQ(support::last_line(text()), "different");
}

TEST_F(DiffTest, EarlierPhasesComeFirstWithinAStep) {
    set_element(b_, "step/0002/parameters", 3, 9.0F);
    set_element(b_, "step/0002/residual/rank1", 70, 9.0F);
    expect_divergence(diff().result, 2, "residual", "residual", 1, 70);
    support::flip_mask_bit(b_, "step/0002/next_mask", 80);
    expect_divergence(diff().result, 2, "mask", "next_mask", Divergence::all_ranks, 80);
}

TEST_F(DiffTest, TheSignOfZeroIsADifference) {
    Index coordinate = 0;
    while (support::mask_bit(b_, "step/0001/mask", coordinate))
        ++coordinate;
    set_element(b_, "step/0001/first_moment", coordinate, -0.0F);
    expect_divergence(diff().result, 1, "exchange", "first_moment", Divergence::all_ranks, coordinate);
}

TEST_F(DiffTest, ABitBeyondTheLastParameterIsADifference) {
    support::flip_mask_bit(b_, "step/0003/mask", 87);
    expect_divergence(diff().result, 3, "mask", "mask", Divergence::all_ranks, 87);
    EXPECT_TRUE(contains(text(), "beyond the last parameter (bit 87)"));
}

TEST_F(DiffTest, TheSameNanIsTheSameAndAnotherIsNot) {
    const auto nan_with = [](std::uint32_t payload) {
        return std::bit_cast<float>(0x7fc0'0000U + payload);
    };
    set_element(a_, "step/0002/gradient/rank0", 5, nan_with(1));
    set_element(b_, "step/0002/gradient/rank0", 5, nan_with(1));
    EXPECT_TRUE(diff().same());
    set_element(b_, "step/0002/gradient/rank0", 5, nan_with(2));
    EXPECT_FALSE(diff().same());
}

TEST_F(DiffTest, InputsThatDifferAreNamedApartFromResults) {
    set_element(b_, "step/0003/gradient/rank2", 44, 9.0F);
    const TraceDifference only_input = diff();
    EXPECT_FALSE(only_input.same());
    expect_divergence(only_input.input, 3, "input", "gradient", 2, 44);
    EXPECT_FALSE(only_input.result.has_value());
    EXPECT_TRUE(contains(text(), "the inputs differ"));
    set_element(b_, "step/0001/local/rank0", 2, 9.0F);
    const TraceDifference both = diff();
    EXPECT_TRUE(both.input.has_value());
    expect_divergence(both.result, 1, "local", "local", 0, 2);
}

TEST_F(DiffTest, SettingsThatDifferAreListedWithBothValues) {
    change_b([](FileImage& image) {
        image.replace_in_config("\"beta1\":0.9", "\"beta1\":0.8");
        image.replace_in_config("\"bias_correction\":\"adam\"", "\"bias_correction\":\"none\"");
        image.replace_in_config("\"owner\":2", "\"owner\":0");
        std::get<std::vector<double>>(image.at("learning_rate").data)[2] = 0.5;
        std::get<std::vector<double>>(image.at("density").data)[5] = 0.5;
        std::get<std::vector<float>>(image.at("initial/parameters").data)[80] = 0.5F;
    });
    const TraceDifference difference = diff();
    EXPECT_FALSE(difference.same());
    const auto& settings = difference.settings;
    ASSERT_EQ(settings.size(), 6U);
    EXPECT_EQ(settings[0], "config beta1: 0.9 against 0.8");
    EXPECT_EQ(settings[1], "config bias_correction: \"adam\" against \"none\"");
    EXPECT_EQ(settings[2], "config segments: the lists differ");
    EXPECT_TRUE(settings[3].starts_with("learning_rate, entry 2: ")) << settings[3];
    EXPECT_EQ(settings[4], "density, entry 5: 0.25 against 0.5");
    EXPECT_TRUE(settings[5].starts_with("initial/parameters, entry 80: ")) << settings[5];
    EXPECT_FALSE(difference.result.has_value()) << "the steps are compared all the same";
    EXPECT_GT(difference.compared, 0);
    for (const std::string& line : settings)
        EXPECT_TRUE(contains(text(), "  " + line + "\n"));
}

TEST_F(DiffTest, TheSignOfAZeroInTheStartIsADifference) {
    set_element(a_, "initial/parameters", 4, 0.0F);
    set_element(b_, "initial/parameters", 4, -0.0F);
    ASSERT_EQ(diff().settings.size(), 1U);
    EXPECT_EQ(diff().settings[0], "initial/parameters, entry 4: 0 against -0");
}

TEST_F(DiffTest, TracesOfOtherLengthsAreComparedAsFarAsBothGo) {
    change_b([](FileImage& image) { image.keep_steps(3); });
    const TraceDifference difference = diff();
    EXPECT_EQ(difference.settings, (std::vector<std::string>{"config steps: 5 against 3"}));
    EXPECT_FALSE(difference.result.has_value());
    EXPECT_EQ(difference.compared, 3 * 81 * (2 * 3 + 6));
    EXPECT_FALSE(difference.same());
}

TEST_F(DiffTest, OtherModelsOrNumbersOfWorkersAreNotComparedAndSaySo) {
    record(b_, support::small_run(problem::Algorithm::scape, {}, 4));
    const TraceDifference workers = diff();
    EXPECT_FALSE(workers.same());
    EXPECT_EQ(workers.compared, 0);
    ASSERT_EQ(workers.notes.size(), 1U);
    EXPECT_TRUE(contains(workers.notes[0], "are not compared"));
    EXPECT_TRUE(contains(text(), "config workers: 3 against 4"));
    EXPECT_EQ(support::last_line(text()), "different");

    record(b_, support::small_run());
    change_b([](FileImage& image) { image.replace_in_config("\"name\":\"wq\"", "\"name\":\"wk\""); });
    EXPECT_FALSE(diff().same());
    EXPECT_TRUE(contains(text(), "config tensors: the lists differ"));
}

TEST_F(DiffTest, AResultThatOnlyOneHoldsIsNotCompared) {
    set_element(b_, "step/0001/local/rank0", 2, 9.0F);
    change_b([](FileImage& image) { image.drop("/local/rank0"); });
    const TraceDifference difference = diff();
    EXPECT_TRUE(difference.same());
    EXPECT_EQ(difference.compared, 5 * 81 * (2 * 3 + 6 - 1));
}

TEST_F(DiffTest, NothingInCommonIsAnErrorAndNotTheSame) {
    FileImage image(a_);
    for (const char* result : {"/parameters", "/first_moment", "/residual", "/mask", "/next_mask"})
        image.drop("step/0001" + std::string(result));
    image.keep_steps(1);
    image.save(a_);
    change_b([](FileImage& other) {
        for (const char* result : {"/local", "/exchanged", "/reconstructed"})
            other.drop("step/0001" + std::string(result));
        other.keep_steps(1);
    });
    EXPECT_TRUE(contains(error_of([&] { static_cast<void>(diff()); }), "no result in common"));
}

TEST_F(DiffTest, AFileThatCannotBeReadIsAnError) {
    support::store(b_, "x");
    EXPECT_TRUE(contains(error_of([&] { static_cast<void>(diff()); }), b_.string()));
    EXPECT_TRUE(contains(
        error_of([&] { static_cast<void>(diff_traces(TraceReader(folder_ / "absent"), TraceReader(a_))); }),
        "absent"));
}

} // namespace
} // namespace truestep::verify::scape
