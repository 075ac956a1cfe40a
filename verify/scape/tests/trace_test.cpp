// Tests that traces are read back in every bit, and that malformed ones are refused.
#include <truestep/verify/scape/trace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "support.hpp"

namespace truestep::verify::scape {
namespace {

using support::contains;
using support::error_of;
using support::FileImage;
using support::gradient_name;
using support::SafetensorsFile;
using support::TemporaryFolder;

class TraceTest : public testing::Test {
  protected:
    TraceTest() : path_(folder_ / "trace.safetensors") {}

    void record_small() const { record(path_, support::small_run()); }

    /// The error about the recorded small run after a change, which must begin with the path.
    template <class Change>
    std::string error_after(Change change) const {
        record_small();
        FileImage image(path_);
        change(image);
        image.save(path_);
        const std::string error = error_of([&] { const TraceReader reader(path_); });
        EXPECT_TRUE(error.starts_with(path_.string() + ": ")) << error;
        return error.substr(std::min(error.size(), path_.string().size() + 2));
    }

    TemporaryFolder folder_;
    std::filesystem::path path_;
};

TEST_F(TraceTest, WhatIsWrittenIsReadBackInEveryBit) {
    const RecordOptions options = support::small_run();
    const Index size = options.problem.layout.size();
    TraceHead head{"who made it \xc3\xa9\n and how", options.problem, {0.1, 0.2}, {1.0, 0.5, 0.25}, {}};
    const auto vector = [&](float first) {
        Vector<float> values(size);
        for (Index i = 0; i < size; ++i)
            values[i] = first + static_cast<float>(i);
        values[3] = -0.0F;
        values[4] = std::numeric_limits<float>::quiet_NaN();
        values[5] = std::numeric_limits<float>::denorm_min();
        return values;
    };
    for (Index i = 0; i < size; ++i)
        head.initial_parameters.push_back(static_cast<float>(i) - 0.5F);
    StepResults<float> results;
    results.local = {vector(1.0F), vector(2.0F), vector(3.0F)};
    results.mask = {0, 7, 8, 80};
    results.next_mask = {1, 79};
    results.exchanged = vector(4.0F);
    results.reconstructed = vector(5.0F);
    results.residual = {vector(6.0F), vector(7.0F), vector(8.0F)};
    results.first_moment = vector(9.0F);
    results.parameters = vector(10.0F);
    const PerRank<float> gradients{vector(11.0F), vector(12.0F), vector(13.0F)};
    TraceWriter writer(path_, head, true);
    writer.write_step(gradients, results);
    writer.write_step(gradients, results);
    writer.finish();

    const TraceReader reader(path_);
    EXPECT_EQ(reader.head().source, head.source);
    EXPECT_EQ(reader.head().problem, head.problem);
    EXPECT_EQ(reader.head().learning_rate, head.learning_rate);
    EXPECT_EQ(reader.head().density, head.density);
    EXPECT_EQ(reader.head().initial_parameters, head.initial_parameters);
    EXPECT_EQ(reader.head().steps(), 2);
    EXPECT_TRUE(reader.states_recorded());
    EXPECT_TRUE(reader.unknown().empty());
    const auto same = [&](const Vector<float>& expected, const std::vector<float>& actual) {
        return compare({expected.data(), static_cast<std::size_t>(expected.size())}, actual, Level::exact())
            .ok();
    };
    for (const Index step : {1, 2}) {
        for (int rank = 0; rank < 3; ++rank)
            EXPECT_TRUE(same(gradients[static_cast<std::size_t>(rank)], reader.gradient(step, rank)));
        for (const ResultKind& kind : result_kinds) {
            if (kind.is_mask) {
                EXPECT_EQ(to_coordinates(reader.mask(kind, step).value(), size),
                          results.mask_of(kind.result));
                continue;
            }
            for (int rank = 0; rank < (kind.per_rank ? 3 : 1); ++rank)
                EXPECT_TRUE(
                    same(*results.values(kind.result, rank), reader.values(kind, step, rank).value()));
        }
    }
}

TEST_F(TraceTest, OnlyWhatTheAlgorithmHasIsWritten) {
    RecordOptions options = support::small_run(problem::Algorithm::adams);
    record(path_, options);
    const SafetensorsFile dense(path_);
    EXPECT_EQ(dense.find("step/0001/residual/rank0"), nullptr);
    EXPECT_EQ(dense.find("step/0001/local/rank0"), nullptr);
    EXPECT_NE(dense.find("step/0001/mask"), nullptr);
    options = support::small_run();
    options.intermediates = false;
    record(path_, options);
    const SafetensorsFile plain(path_);
    EXPECT_NE(plain.find("step/0001/residual/rank2"), nullptr);
    EXPECT_EQ(plain.find("step/0001/exchanged"), nullptr);
    EXPECT_EQ(plain.find("step/0001/reconstructed"), nullptr);
    EXPECT_EQ(plain.find("step/0001/local/rank0"), nullptr);
}

TEST_F(TraceTest, StepsHaveFourOrMoreDigits) {
    EXPECT_EQ(tensor_name(kind_of(Result::residual), 1, 2), "step/0001/residual/rank2");
    EXPECT_EQ(tensor_name(kind_of(Result::next_mask), 12'345, 0), "step/12345/next_mask");
    EXPECT_EQ(gradient_name(9999, 10), "step/9999/gradient/rank10");
}

TEST_F(TraceTest, BitsOfAMaskBeginAtTheLowestOfTheFirstByte) {
    EXPECT_EQ(to_bits({0, 7, 8, 17}, 18), (std::vector<std::uint8_t>{0b1000'0001, 0b1, 0b10}));
    EXPECT_EQ(to_bits({}, 17), (std::vector<std::uint8_t>{0, 0, 0}));
    EXPECT_EQ(to_coordinates({0b1000'0001, 0b1, 0b1111'1110}, 18), (Coordinates{0, 7, 8, 17}))
        << "bits beyond the last coordinate are none";
}

TEST_F(TraceTest, AFileThatIsNoTraceIsRefused) {
    EXPECT_TRUE(contains(error_after([](FileImage& image) { image.metadata.erase("format"); }),
                         "its metadata has no 'format'"));
    EXPECT_TRUE(contains(error_after([](FileImage& image) { image.metadata["format"] = "pt"; }),
                         "format 'pt'; this tool reads format 'scape-trace'"));
    EXPECT_TRUE(contains(error_after([](FileImage& image) { image.metadata.erase("version"); }),
                         "its metadata has no 'version'"));
    EXPECT_TRUE(contains(error_after([](FileImage& image) { image.metadata["version"] = "2"; }),
                         "version '2'; this tool reads version '1'"));
    EXPECT_TRUE(contains(error_after([](FileImage& image) { image.metadata.erase("source"); }),
                         "its metadata has no 'source'"));
    EXPECT_TRUE(contains(error_after([](FileImage& image) { image.metadata.erase("config"); }),
                         "its metadata has no 'config'"));
    EXPECT_TRUE(contains(error_after([](FileImage& image) { image.metadata["config"] = "?"; }),
                         "config is not JSON"));
    support::store(path_, "not a safetensors file");
    EXPECT_TRUE(contains(error_of([&] { const TraceReader reader(path_); }), path_.string()));
    EXPECT_TRUE(contains(error_of([&] { const TraceReader reader(folder_ / "absent"); }), "absent"));
    EXPECT_TRUE(
        contains(error_of([&] { const TraceReader reader(folder_.path()); }), folder_.path().string()));
}

TEST_F(TraceTest, AWantedTensorThatIsMissingIsRefused) {
    for (const char* name : {"learning_rate", "density", "initial/parameters", "step/0001/gradient/rank0",
                             "step/0005/gradient/rank2"})
        EXPECT_TRUE(contains(error_after([&](FileImage& image) { image.drop(name); }),
                             "tensor " + std::string(name) + " is missing"));
}

TEST_F(TraceTest, ATensorOfAnotherShapeIsRefused) {
    const auto shape_error = [&](const std::string& name, std::vector<std::uint64_t> shape) {
        return error_after([&](FileImage& image) {
            FileImage::Tensor& tensor = image.at(name);
            std::uint64_t count = 1;
            for (const std::uint64_t extent : shape)
                count *= extent;
            std::visit([&](auto& data) { data.resize(count); }, tensor.data);
            tensor.shape = shape;
        });
    };
    EXPECT_TRUE(
        contains(shape_error("learning_rate", {4}), "learning_rate is F64[4]; the config asks for F64[5]"));
    EXPECT_TRUE(contains(shape_error("density", {5}), "density is F64[5]; the config asks for F64[6]"));
    EXPECT_TRUE(contains(shape_error("initial/parameters", {80}), "F32[80]; the config asks for F32[81]"));
    EXPECT_TRUE(
        contains(shape_error("initial/parameters", {9, 9}), "F32[9, 9]; the config asks for F32[81]"));
    EXPECT_TRUE(contains(shape_error("step/0002/gradient/rank1", {82}), "F32[82]"));
    EXPECT_TRUE(contains(shape_error("step/0003/parameters", {0}), "F32[0]"));
    EXPECT_TRUE(contains(shape_error("step/0003/residual/rank2", {}), "F32[]"));
    EXPECT_TRUE(contains(shape_error("step/0004/mask", {10}), "U8[10]; the config asks for U8[11]"));
    EXPECT_TRUE(contains(shape_error("step/0004/next_mask", {81}), "U8[81]"));
}

TEST_F(TraceTest, ATensorOfAnotherTypeIsRefused) {
    EXPECT_TRUE(contains(
        error_after([](FileImage& image) { image.at("learning_rate").data = std::vector<float>(5, 0.1F); }),
        "learning_rate is F32[5]; the config asks for F64[5]"));
    EXPECT_TRUE(contains(error_after([](FileImage& image) {
                             image.at("step/0001/parameters").data = std::vector<double>(81, 0.1);
                         }),
                         "F64[81]; the config asks for F32[81]"));
    EXPECT_TRUE(contains(error_after([](FileImage& image) {
                             image.at("step/0001/mask").data = std::vector<float>(11, 1.0F);
                         }),
                         "F32[11]; the config asks for U8[11]"));
    EXPECT_TRUE(contains(error_after([](FileImage& image) {
                             image.at("step/0001/gradient/rank0").data = std::vector<std::uint8_t>(81, 1);
                         }),
                         "U8[81]; the config asks for F32[81]"));
}

TEST_F(TraceTest, AScheduleOutOfItsRangeIsRefused) {
    constexpr double no_number_above = std::numeric_limits<double>::infinity();
    constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
    const auto value_error = [&](const std::string& tensor, std::size_t entry, double value) {
        return error_after(
            [&](FileImage& image) { std::get<std::vector<double>>(image.at(tensor).data)[entry] = value; });
    };
    for (const double value : {no_number_above, -no_number_above, not_a_number})
        EXPECT_TRUE(contains(value_error("learning_rate", 4, value), "learning_rate, entry 4, is "));
    for (const double value : {0.0, -0.5, 1.0000001, no_number_above, not_a_number})
        EXPECT_TRUE(contains(value_error("density", 5, value), "density, entry 5, is "));
}

TEST_F(TraceTest, EachParameterGroupHasItsLearningRates) {
    RecordOptions options = support::small_run();
    options.problem.layout = with_param_groups(options.problem.layout, "0,1,0");
    options.more_learning_rates = {{0.5, 0.25}};
    record(path_, options);
    const TraceReader reader(path_);
    EXPECT_EQ(reader.head().steps(), 5);
    EXPECT_EQ(reader.head().rates(1).of(0), 0.01);
    EXPECT_EQ(reader.head().rates(1).of(1), 0.5);
    EXPECT_EQ(reader.head().rates(5).of(0), 0.005);
    EXPECT_EQ(reader.head().rates(5).of(1), 0.25);
    const auto error_with = [&](const std::vector<double>& rates) {
        FileImage image(path_);
        image.at("learning_rate").data = rates;
        image.at("learning_rate").shape = {rates.size()};
        image.save(folder_ / "changed");
        return error_of([&] { const TraceReader changed(folder_ / "changed"); });
    };
    EXPECT_TRUE(contains(error_with(std::vector<double>(5, 0.01)),
                         "learning_rate is F64[5]; the config asks for F64[10]"))
        << "of one group alone";
    std::vector<double> rates(10, 0.01);
    rates[3] = -0.5;
    EXPECT_TRUE(
        contains(error_with(rates), "learning_rate, entry 3, is -0.5; it must be finite and 0 or more"));
}

TEST_F(TraceTest, InitialParametersMustBeFinite) {
    EXPECT_TRUE(contains(error_after([](FileImage& image) {
                             std::get<std::vector<float>>(image.at("initial/parameters").data)[80] =
                                 std::numeric_limits<float>::infinity();
                         }),
                         "initial/parameters, entry 80, is inf; it must be finite"));
}

TEST_F(TraceTest, ATraceWithNothingToCompareIsAnError) {
    const std::string error = error_after([](FileImage& image) {
        for (const ResultKind& kind : result_kinds)
            image.drop_result(kind.name);
    });
    // "/mask" is not part of "/next_mask", nor is any other name part of another.
    EXPECT_TRUE(contains(error, "holds no result of any step")) << error;
}

TEST_F(TraceTest, OneResultIsEnough) {
    record_small();
    FileImage image(path_);
    for (const ResultKind& kind : result_kinds)
        if (kind.result != Result::mask)
            image.drop_result(kind.name);
    for (const char* step : {"0001", "0002", "0003", "0004"})
        image.drop("step/" + std::string(step) + "/mask");
    image.save(path_);
    const TraceReader reader(path_);
    EXPECT_FALSE(reader.mask(kind_of(Result::mask), 1).has_value());
    EXPECT_TRUE(reader.mask(kind_of(Result::mask), 5).has_value());
    EXPECT_FALSE(reader.values(kind_of(Result::parameters), 5, 0).has_value());
    EXPECT_FALSE(reader.states_recorded());
}

TEST_F(TraceTest, StatesAreRecordedOnlyIfEveryStepAndRankHasThem) {
    for (const char* name :
         {"step/0003/parameters", "step/0005/first_moment", "step/0001/residual/rank2"}) {
        record_small();
        EXPECT_TRUE(TraceReader(path_).states_recorded());
        FileImage image(path_);
        image.drop(name);
        image.save(path_);
        EXPECT_FALSE(TraceReader(path_).states_recorded()) << name;
    }
    record(path_, support::small_run(problem::Algorithm::adams));
    EXPECT_TRUE(TraceReader(path_).states_recorded()) << "AdamS has no residual";
}

TEST_F(TraceTest, TensorsWithoutAMeaningAreNamed) {
    record_small();
    FileImage image(path_);
    image.at("step/0002/first_moment").name = "step/0002/first_momentum";
    for (const char* name :
         {"step/0006/parameters", "step/0001/residual/rank3", "step/00001/parameters", "notes"})
        image.tensors.push_back({name, {1}, std::vector<float>{1.0F}});
    image.save(path_);
    const TraceReader reader(path_);
    const std::set<std::string> unknown(reader.unknown().begin(), reader.unknown().end());
    EXPECT_EQ(unknown,
              (std::set<std::string>{"step/0002/first_momentum", "step/0006/parameters",
                                     "step/0001/residual/rank3", "step/00001/parameters", "notes"}));
}

TEST_F(TraceTest, WhatTheAlgorithmDoesNotHaveIsWithoutAMeaning) {
    record(path_, support::small_run(problem::Algorithm::adams));
    FileImage image(path_);
    for (const char* name : {"step/0001/residual/rank0", "step/0002/local/rank1", "step/0003/exchanged"})
        image.tensors.push_back({name, {81}, std::vector<float>(81, 1.0F)});
    image.save(path_);
    EXPECT_EQ(TraceReader(path_).unknown().size(), 3U);
}

TEST_F(TraceTest, ResultsThatAreAbsentHereAndThereAreNamed) {
    record_small();
    FileImage image(path_);
    image.drop("step/0002/residual/rank1");
    image.drop("step/0004/mask");
    image.drop_result("exchanged");
    image.save(path_);
    EXPECT_EQ(TraceReader(path_).missing(),
              (std::vector<std::string>{"step/0004/mask", "step/0002/residual/rank1"}))
        << "what is absent everywhere was not recorded";
}

} // namespace
} // namespace truestep::verify::scape
