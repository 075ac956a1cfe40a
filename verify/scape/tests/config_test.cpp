// Tests the config of a trace.
#include <array>
#include <concepts>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/settings.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/verify/scape/trace.hpp>

#include "support.hpp"

namespace truestep::verify::scape {
namespace {

using support::contains;
using support::error_of;

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

/// The error about a config, which must begin by naming it.
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
    for (const auto rule : {problem::PartitionRule::by_shard, problem::PartitionRule::by_tensor})
        for (const int workers : {1, 2, 7, 100}) {
            auto run = support::small_run(problem::Algorithm::scape, {}, workers, rule);
            run.problem.settings.epsilon = 1e-30;
            run.problem.settings.weight_decay = 5e-324;
            const Config back = parse_config(config_text(run.problem, 12'345), "x");
            EXPECT_EQ(back.problem, run.problem);
            EXPECT_EQ(back.steps, 12'345);
        }
    const problem::Problem dense = support::small_run(problem::Algorithm::adams).problem;
    EXPECT_EQ(parse_config(config_text(dense, 1), "x").problem, dense);
}

/// Numbers whose shortest decimals are long, or the other choices.
template <class Value>
std::vector<Value> others(Value than) {
    std::vector<Value> choices;
    if constexpr (std::floating_point<Value>)
        choices = {1.0 / 3.0, 0.1 + 0.2};
    else
        for (int number = 0; number < 10; ++number)
            try {
                if (!name(static_cast<Value>(number)).empty() && static_cast<Value>(number) != than)
                    choices.push_back(static_cast<Value>(number));
            } catch (const Error&) { // not a choice
            }
    return choices;
}

TEST(Config, EachSettingIsReadBackTheSameAndRefusedIfItIsImpossible) {
    const std::string page = support::load(TRUESTEP_FIXTURES "/../../docs/specification/traces.md");
    problem::visit_settings([&](const std::string& key, auto member, const auto&, const auto&... limits) {
        Config config = parse_config(good_config, "x");
        const std::string start = "\"" + key + "\":";
        std::string text;
        for (const auto value : others(config.problem.settings.*member)) {
            config.problem.settings.*member = value;
            text = config_text(config.problem, 3);
            EXPECT_TRUE(contains(text, start)) << text;
            EXPECT_EQ(parse_config(text, "x").problem, config.problem) << text;
        }
        const std::size_t begin = text.find(start) + start.size();
        const auto error_with = [&](const std::string& value) {
            return config_error(text.substr(0, begin) + value + text.substr(text.find(',', begin)));
        };
        EXPECT_TRUE(contains(error_with("{}"), "'" + key + "' is not a ")) << error_with("{}");
        EXPECT_TRUE(contains(error_with(R"("some")"), key)) << error_with(R"("some")");
        for (const problem::Limits& of_number : std::vector<problem::Limits>{limits...})
            EXPECT_TRUE(
                contains(error_with("-1"), key + " is -1; it must be " + std::string(of_number.text)));
        EXPECT_TRUE(contains(page, key)) << "docs/specification/traces.md does not name it";
    });
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
}

TEST(Config, NormAndPayloadAreWhatTheyWereBeforeThereWasAChoice) {
    using problem::NormVersion;
    using problem::Payload;
    const Config old = parse_config(good_config, "x");
    EXPECT_EQ(old.problem.settings.norm, NormVersion::ascending);
    EXPECT_EQ(old.problem.settings.payload, Payload::fp32);
    const std::string later =
        replaced(good_config, R"("steps": 3)", R"("steps": 3, "norm": 2, "payload": "bf16")");
    Config config = parse_config(later, "x");
    EXPECT_EQ(config.problem.settings.norm, NormVersion::tree);
    EXPECT_EQ(config.problem.settings.payload, Payload::bf16);
    EXPECT_TRUE(contains(config_text(config.problem, 3), R"("norm":2,"payload":"bf16")"));
    // Without clipping there is no norm, and old traces keep their bytes.
    config.problem.settings.clip_norm = 0.0;
    config.problem.settings.payload = Payload::fp32;
    const std::string unclipped = config_text(config.problem, 3);
    EXPECT_FALSE(contains(unclipped, "\"norm\":") || contains(unclipped, "payload"));
    EXPECT_EQ(parse_config(unclipped, "x").problem, config.problem);
}

TEST(Config, GroupsAreReadWhereTheyAreAndWrittenWhereThereAreSome) {
    Config config = parse_config(good_config, "x");
    EXPECT_TRUE(config.problem.settings.groups.empty());
    EXPECT_FALSE(contains(config_text(config.problem, 3), "groups"));
    config = parse_config(replaced(good_config, R"("steps": 3)", R"("steps": 3, "groups": [1, 1])"), "x");
    EXPECT_EQ(config.problem.settings.groups, (problem::Groups{1, 1}));
    EXPECT_TRUE(contains(config_text(config.problem, 3), R"("groups":[1,1])"));
    EXPECT_EQ(parse_config(config_text(config.problem, 3), "x").problem, config.problem);
}

const std::string second_group = R"("size": 2, "param_group": 1)";

TEST(Config, ParameterGroupsAreReadWhereTheyAreAndWrittenWhereThereAreSome) {
    const std::string one = config_text(parse_config(good_config, "x").problem, 3);
    EXPECT_FALSE(contains(one, "param_group"));
    EXPECT_TRUE(contains(one, R"("weight_decay":0.1,)"));
    const std::string shared = replaced(good_config, R"("size": 2)", second_group);
    for (const auto& [text, decay] :
         {std::pair(shared, 0.1),
          {replaced(shared, R"("weight_decay": 0.1)", R"("weight_decay": [0.1, 0])"), 0.0}}) {
        const problem::Problem problem = parse_config(text, "x").problem;
        EXPECT_EQ(problem.layout.tensors()[1].param_group, 1);
        EXPECT_EQ(problem.settings.weight_decay_of(0), 0.1);
        EXPECT_EQ(problem.settings.weight_decay_of(1), decay);
        EXPECT_EQ(parse_config(config_text(problem, 3), "x").problem, problem);
    }
}

TEST(Config, ParameterGroupsThatDoNotFitAreRefused) {
    EXPECT_TRUE(contains(changed_config_error(R"("weight_decay": 0.1)", R"("weight_decay": [0.1, 0])"),
                         "weight_decay has 2 numbers, and the tensors are of 1 parameter group"));
    for (const char* list : {"[]", "[0.1, \"0\"]"})
        EXPECT_TRUE(contains(
            changed_config_error(R"("weight_decay": 0.1)", R"("weight_decay": )" + std::string(list)),
            "weight_decay is a list, and not of numbers"));
    for (const auto& [number, message] :
         {std::pair("2", "parameter group 1 has no tensor, and group 2 has one"),
          {"4611686018427387904", "parameter group 1 has no tensor"},
          {"-1", "tensor norm is of parameter group -1"},
          {"0.5", "'param_group' is not a whole number"}})
        EXPECT_TRUE(contains(
            changed_config_error(R"("size": 2)", R"("size": 2, "param_group": )" + std::string(number)),
            message));
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
    // The same key in two objects is not repeated.
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
        {R"("floor")", "1", "'k_rounding' is not a string"},
        {R"("steps": 3)", R"("steps": 3, "norm": "2")", "'norm' is not a whole number"},
        {R"("steps": 3)", R"("steps": 3, "norm": 3)", "norm is '3'; it must be one of 1, 2"},
        {R"("steps": 3)", R"("steps": 3, "payload": "e4m3")",
         "payload is 'e4m3'; it must be one of fp32, bf16, e5m2, bf16_both, e5m2_both"},
        {R"("steps": 3)", R"("steps": 3, "groups": 2)", "'groups' is not a list"},
        {R"("steps": 3)", R"("steps": 3, "groups": [2.5])", "groups: entry 0 is not a number of ranks"},
        {R"("steps": 3)", R"("steps": 3, "groups": [2, -1])", "groups: entry 1 is not a number of ranks"},
        {R"("steps": 3)", R"("steps": 3, "groups": [2, 0])", "each has at least 1 rank"},
        {R"("steps": 3)", R"("steps": 3, "groups": [2, 1])", "which is 3 ranks together"},
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

} // namespace
} // namespace truestep::verify::scape
