#include <scape/problem/text.hpp>
#include <scape/verify/trace.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <scape/problem/data.hpp>

#include "support.hpp"

namespace scape::verify {
namespace {

using support::contains;
using support::error_of;
using support::FileImage;
using support::gradient_name;
using support::SafetensorsFile;
using support::TemporaryFolder;

const std::string good_config = R"({
    "algorithm": "scape", "workers": 2, "steps": 3, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8,
    "weight_decay": 0.1, "bias_correction": "adam", "decay_order": "first", "clip_norm": 0.5,
    "k_rounding": "floor",
    "tensors": [{"name": "wq", "size": 6, "always_dense": false},
                {"name": "norm", "size": 2, "always_dense": true}],
    "segments": [{"begin": 0, "end": 4, "owner": 0}, {"begin": 4, "end": 6, "owner": 1},
                 {"begin": 6, "end": 8, "owner": 0}]})";

std::string replaced(std::string text, const std::string& old_part, const std::string& new_part) {
    const std::size_t found = text.find(old_part);
    if (found == std::string::npos)
        throw std::logic_error("the good config has no " + old_part);
    return text.replace(found, old_part.size(), new_part);
}

/// The message about a config, which must begin with what it is about.
std::string config_error(const std::string& text) {
    std::string error = error_of([&] { static_cast<void>(parse_config(text, "t.safetensors: config")); });
    EXPECT_TRUE(error.starts_with("t.safetensors: config")) << error;
    return error;
}

std::string changed_config_error(const std::string& old_part, const std::string& new_part) {
    return config_error(replaced(good_config, old_part, new_part));
}

TEST(Config, IsReadInFull) {
    const Config config = parse_config(good_config, "x");
    const problem::Problem& problem = config.problem;
    EXPECT_EQ(config.steps, 3);
    EXPECT_EQ(problem.algorithm, problem::Algorithm::scape);
    EXPECT_EQ(problem.workers, 2);
    EXPECT_EQ(problem.settings.beta1, 0.9);
    EXPECT_EQ(problem.settings.beta2, 0.95);
    EXPECT_EQ(problem.settings.epsilon, 1e-8);
    EXPECT_EQ(problem.settings.weight_decay, 0.1);
    EXPECT_EQ(problem.settings.clip_norm, 0.5);
    EXPECT_EQ(problem.settings.bias_correction, problem::BiasCorrection::adam);
    EXPECT_EQ(problem.settings.decay_order, problem::DecayOrder::first);
    EXPECT_EQ(problem.settings.k_rounding, problem::KRounding::floor);
    EXPECT_EQ(problem.layout.tensors(),
              (std::vector<problem::Tensor>{{"wq", 6, false}, {"norm", 2, true}}));
    EXPECT_EQ(problem.segments,
              (std::vector<problem::Segment>{{0, 4, 0, false}, {4, 6, 1, false}, {6, 8, 0, true}}));
}

TEST(Config, WhatIsPrintedIsReadBackTheSame) {
    std::vector<RecordOptions> runs;
    for (const auto rule : {problem::PartitionRule::by_shard, problem::PartitionRule::by_tensor})
        for (const auto correction : {problem::BiasCorrection::none, problem::BiasCorrection::adam,
                                      problem::BiasCorrection::momentum})
            for (const auto decay : {problem::DecayOrder::first, problem::DecayOrder::together})
                for (const auto rounding : {problem::KRounding::floor, problem::KRounding::ceil}) {
                    // Numbers whose shortest decimals are long.
                    const problem::HyperParameters settings{1.0 / 3.0, 0.1 + 0.2,  1e-300, 5e-324,
                                                            0.1,       correction, decay,  rounding};
                    for (const int workers : {1, 2, 7, 100}) {
                        auto run = support::small_run(problem::Algorithm::scape, {}, workers, rule);
                        run.problem.settings = settings;
                        runs.push_back(run);
                    }
                }
    for (RecordOptions& run : runs) {
        run.problem.settings.epsilon = 1e-30;
        const Config back = parse_config(config_text(run.problem, 12'345), "x");
        EXPECT_EQ(back.problem, run.problem);
        EXPECT_EQ(back.steps, 12'345);
    }
    const problem::Problem dense = support::small_run(problem::Algorithm::adams).problem;
    EXPECT_EQ(parse_config(config_text(dense, 1), "x").problem, dense);
}

TEST(Config, NamesOfTensorsMayHoldAnyText) {
    const problem::Layout layout({{"a \"b\" \\ \xc3\xa9 {}", 3, false}, {"c", 0, true}});
    const auto problem =
        problem::make_problem(problem::Algorithm::scape, 2, layout, problem::PartitionRule::by_shard, {});
    EXPECT_EQ(parse_config(config_text(problem, 1), "x").problem, problem);
}

TEST(Config, EachKeyButTwoIsWanted) {
    // From the key to the end of its value.
    const std::vector<std::pair<std::string, std::string>> keys{
        {"algorithm", R"("algorithm": "scape", )"},
        {"workers", R"("workers": 2, )"},
        {"steps", R"("steps": 3, )"},
        {"beta1", R"("beta1": 0.9, )"},
        {"beta2", R"("beta2": 0.95, )"},
        {"epsilon", R"("epsilon": 1e-8,)"},
        {"weight_decay", R"("weight_decay": 0.1, )"},
        {"bias_correction", R"("bias_correction": "adam", )"},
        {"clip_norm", R"("clip_norm": 0.5,)"},
        {"name", R"("name": "wq", )"},
        {"size", R"("size": 6, )"},
        {"always_dense", R"(, "always_dense": false)"},
        {"begin", R"("begin": 0, )"},
        {"end", R"("end": 4, )"},
        {"owner", R"(, "owner": 0)"},
    };
    for (const auto& [key, text] : keys)
        EXPECT_TRUE(contains(changed_config_error(text, ""), "has no '" + key + "'"));
    const std::size_t tensors = good_config.find(R"("tensors")");
    const std::size_t segments = good_config.find(R"("segments")");
    EXPECT_TRUE(contains(config_error(good_config.substr(0, tensors) + good_config.substr(segments)),
                         "has no 'tensors'"));
    EXPECT_TRUE(contains(config_error(good_config.substr(0, good_config.rfind(',', segments)) + "}"),
                         "has no 'segments'"));
}

TEST(Config, RoundingOfKAndOrderOfDecayHaveDefaults) {
    const Config config = parse_config(
        replaced(replaced(good_config, R"("decay_order": "first", )", ""), R"("k_rounding": "floor",)", ""),
        "x");
    EXPECT_EQ(config.problem.settings.decay_order, problem::DecayOrder::first);
    EXPECT_EQ(config.problem.settings.k_rounding, problem::KRounding::floor);
    const Config other = parse_config(
        replaced(replaced(good_config, R"("first")", R"("together")"), R"("floor")", R"("ceil")"), "x");
    EXPECT_EQ(other.problem.settings.decay_order, problem::DecayOrder::together);
    EXPECT_EQ(other.problem.settings.k_rounding, problem::KRounding::ceil);
}

TEST(Config, AnUnknownKeyIsRefused) {
    EXPECT_TRUE(
        contains(changed_config_error(R"("steps": 3)", R"("steps": 3, "beta3": 0.5)"), "\"beta3\""));
    EXPECT_TRUE(contains(changed_config_error(R"("size": 6)", R"("size": 6, "shape": [6])"),
                         "tensor 0 has a key that section 9 does not know: \"shape\""));
    EXPECT_TRUE(contains(changed_config_error(R"("owner": 1)", R"("owner": 1, "dense": true)"),
                         "segment 1 has a key that section 9 does not know: \"dense\""));
}

TEST(Config, ARepeatedKeyIsRefused) {
    EXPECT_TRUE(contains(changed_config_error(R"("steps": 3)", R"("steps": 3, "steps": 3)"),
                         "has the key \"steps\" twice"));
    EXPECT_TRUE(contains(changed_config_error(R"("size": 6)", R"("size": 6, "size": 7)"),
                         "has the key \"size\" twice"));
    // The same key in two objects is none that is repeated.
    EXPECT_NO_THROW(static_cast<void>(parse_config(good_config, "x")));
}

TEST(Config, AValueOfTheWrongKindIsRefused) {
    const std::vector<std::array<std::string, 3>> changes{
        {R"("scape")", "7", "'algorithm' is not a string"},
        {R"("workers": 2)", R"("workers": "2")", "'workers' is not a whole number"},
        {R"("workers": 2)", R"("workers": 1.5)", "'workers' is not a whole number"},
        {R"("workers": 2)", R"("workers": 2.0)", "'workers' is not a whole number"},
        {R"("workers": 2)", R"("workers": true)", "'workers' is not a whole number"},
        {R"("workers": 2)", R"("workers": null)", "'workers' is not a whole number"},
        {R"("workers": 2)", R"("workers": 18446744073709551615)", "'workers' is not a whole number"},
        {R"("workers": 2)", R"("workers": 99999999999999999999999)", "'workers' is not a whole number"},
        {R"("steps": 3)", R"("steps": [3])", "'steps' is not a whole number"},
        {R"("beta1": 0.9)", R"("beta1": "0.9")", "'beta1' is not a number"},
        {R"("epsilon": 1e-8)", R"("epsilon": false)", "'epsilon' is not a number"},
        {R"("adam")", "{}", "'bias_correction' is not a string"},
        {R"("floor")", "1", "'k_rounding' is not a string"},
        {R"("always_dense": false)", R"("always_dense": 0)",
         "tensor 0: 'always_dense' is not true or false"},
        {R"("name": "wq")", R"("name": 5)", "tensor 0: 'name' is not a string"},
        {R"("size": 2)", R"("size": 2.5)", "tensor 1: 'size' is not a whole number"},
        {R"("end": 4)", R"("end": "4")", "segment 0: 'end' is not a whole number"},
        {R"({"name": "wq", "size": 6, "always_dense": false})", "5", "tensor 0 is not a JSON object"},
        {R"({"begin": 0, "end": 4, "owner": 0})", "[0, 4, 0]", "segment 0 is not a JSON object"},
    };
    for (const auto& [old_part, new_part, expected] : changes) {
        const std::string error = changed_config_error(old_part, new_part);
        EXPECT_TRUE(contains(error, expected)) << new_part << ": " << error;
    }
    const std::size_t segments = good_config.find("[{\"begin\"");
    EXPECT_TRUE(contains(config_error(good_config.substr(0, segments) + "7}"), "'segments' is not a list"));
}

TEST(Config, WhatIsNoJsonObjectIsRefused) {
    EXPECT_TRUE(contains(config_error(""), "is not JSON"));
    EXPECT_TRUE(contains(config_error("{"), "is not JSON"));
    EXPECT_TRUE(contains(config_error(good_config + "}"), "is not JSON"));
    EXPECT_TRUE(contains(config_error("{\"steps\": 1,}"), "is not JSON"));
    EXPECT_TRUE(contains(config_error("{\"steps\": NaN}"), "is not JSON"));
    EXPECT_TRUE(contains(config_error("{\"\xff\": 1}"), "is not JSON"));
    EXPECT_TRUE(contains(config_error("[]"), "is not a JSON object"));
    EXPECT_TRUE(contains(config_error("7"), "is not a JSON object"));
    EXPECT_TRUE(contains(config_error(std::string(100'000, '[')), "is not JSON"));
}

TEST(Config, ANumberThatNoDoubleHoldsIsRefused) {
    EXPECT_TRUE(contains(changed_config_error("0.95", "1e999"), "is not JSON"));
    EXPECT_TRUE(contains(changed_config_error("0.95", "-1e999"), "is not JSON"));
}

TEST(Config, AnImpossibleSettingIsRefused) {
    const std::vector<std::array<std::string, 3>> changes{
        {R"("scape")", R"("adamw")", "algorithm is 'adamw'"},
        {R"("workers": 2)", R"("workers": 0)", "workers is 0"},
        {R"("workers": 2)", R"("workers": -1)", "workers is -1"},
        {R"("workers": 2)", R"("workers": 1048577)", "workers is 1048577"},
        {R"("workers": 2)", R"("workers": 4611686018427387904)", "workers is 4611686018427387904"},
        {R"("steps": 3)", R"("steps": 0)", "steps is 0"},
        {R"("steps": 3)", R"("steps": -3)", "steps is -3"},
        {R"("beta1": 0.9)", R"("beta1": 1)", "beta1 is 1"},
        {R"("beta1": 0.9)", R"("beta1": -0.1)", "beta1 is -0.1"},
        {R"("beta2": 0.95)", R"("beta2": 1.5)", "beta2 is 1.5"},
        {R"("epsilon": 1e-8)", R"("epsilon": 0)", "epsilon is 0"},
        {R"("weight_decay": 0.1)", R"("weight_decay": -1)", "weight_decay is -1"},
        {R"("clip_norm": 0.5)", R"("clip_norm": -0.5)", "clip_norm is -0.5"},
        {R"("adam")", R"("Adam")", "bias_correction is 'Adam'"},
        {R"("first")", R"("last")", "decay_order is 'last'"},
        {R"("floor")", R"("round")", "k_rounding is 'round'"},
        {R"("scape")", R"("adams")", "algorithm adams has no clipping"},
        {R"("size": 6)", R"("size": -6)", "tensor wq has size -6"},
        {R"("name": "norm")", R"("name": "wq")", "two tensors are named wq"},
        {R"("name": "norm")", R"("name": "")", "has an empty name"},
    };
    for (const auto& [old_part, new_part, expected] : changes) {
        const std::string error = changed_config_error(old_part, new_part);
        EXPECT_TRUE(contains(error, expected)) << new_part << ": " << error;
    }
}

TEST(Config, SegmentsMustCoverTheVectorInOrder) {
    const std::vector<std::array<std::string, 3>> changes{
        {R"("begin": 0)", R"("begin": 1)", "does not begin at 0"},
        {R"("begin": 4)", R"("begin": 5)", "does not begin at 4"},
        {R"("begin": 4)", R"("begin": 3)", "does not begin at 4"},
        {R"("end": 4)", R"("end": 0)", "is empty"},
        {R"({"begin": 4, "end": 6, "owner": 1},)", "", "does not begin at 4"},
        {R"("end": 8)", R"("end": 9)", "reaches past the last of 8 parameters"},
        {R"("end": 8)", R"("end": 7)", "they end at 7 of 8"},
        {R"("end": 6)", R"("end": 8)", "reaches past the end of tensor wq"},
        {R"("owner": 1)", R"("owner": 2)", "has owner 2"},
        {R"("owner": 1)", R"("owner": -1)", "has owner -1"},
        {R"("owner": 1)", R"("owner": 4294967297)", "has owner"},
    };
    for (const auto& [old_part, new_part, expected] : changes) {
        const std::string error = changed_config_error(old_part, new_part);
        EXPECT_TRUE(contains(error, expected)) << new_part << ": " << error;
    }
}

TEST(Config, OwnersMayComeInAnyOrder) {
    const std::string config =
        replaced(good_config, R"([{"begin": 0, "end": 4, "owner": 0}, {"begin": 4, "end": 6, "owner": 1},
                 {"begin": 6, "end": 8, "owner": 0}])",
                 R"([{"begin": 0, "end": 2, "owner": 1}, {"begin": 2, "end": 4, "owner": 0},
                 {"begin": 4, "end": 6, "owner": 1}, {"begin": 6, "end": 8, "owner": 0}])");
    EXPECT_EQ(parse_config(config, "x").problem.segments.size(), 4U);
}

TEST(Config, AMessageIsOneLineWhateverTheTextHolds) {
    static_cast<void>(changed_config_error(R"("scape")", R"("sc\nape")"));
    static_cast<void>(changed_config_error(R"("steps": 3)", R"("steps": 3, "new\nline": 0.5)"));
    static_cast<void>(changed_config_error(R"("size": 6)", R"("size": 6, "new\nline": 0.5)"));
    static_cast<void>(changed_config_error(R"("name": "wq", "size": 6)", R"("name": "w\nq", "size": -6)"));
    const std::string twice = changed_config_error(R"("steps": 3)", R"("\u007f": 3, "\u007f": 3)");
    EXPECT_TRUE(contains(twice, "twice")) << twice;
    EXPECT_EQ(twice, one_line(twice));
}

// Traces.

class TraceTest : public testing::Test {
  protected:
    TraceTest() : path_(folder_ / "trace.safetensors") {}

    void record_small() const { record(path_, support::small_run()); }

    /// The message about the recorded small run after a change, which must begin with the path.
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
    constexpr double infinite = std::numeric_limits<double>::infinity();
    constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
    const auto value_error = [&](const std::string& tensor, std::size_t entry, double value) {
        return error_after(
            [&](FileImage& image) { std::get<std::vector<double>>(image.at(tensor).data)[entry] = value; });
    };
    for (const double value : {infinite, -infinite, not_a_number})
        EXPECT_TRUE(contains(value_error("learning_rate", 4, value), "learning_rate, entry 4, is "));
    for (const double value : {0.0, -0.5, 1.0000001, infinite, not_a_number})
        EXPECT_TRUE(contains(value_error("density", 5, value), "density, entry 5, is "));
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
} // namespace scape::verify
