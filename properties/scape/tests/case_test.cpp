// A case is one line of text, from which everything follows.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/settings.hpp>
#include <truestep/properties/scape/property.hpp>

namespace truestep::properties::scape {
namespace {

TEST(Case, EveryDrawnCaseIsReadBackFromItsText) {
    rc::Random random(7);
    int scripted = 0;
    for (const Property& property : all_properties())
        for (int i = 0; i < 50; ++i) {
            const Case run = property.cases()(random.split(), rc::kNominalSize).value();
            const std::string line = text(run);
            EXPECT_EQ(line.find_first_of(" '\"$"), std::string::npos)
                << "not one word of a shell: " << line;
            EXPECT_TRUE(parse_case(line) == run) << line;
            scripted += run.script.empty() ? 0 : 1;
        }
    EXPECT_GT(scripted, 0);
}

TEST(Case, EachSettingOfTheProblemIsDrawn) {
    rc::Random random(7);
    std::map<std::string, std::set<std::string>> drawn;
    for (const Property& property : all_properties())
        for (int i = 0; i < 20; ++i) {
            const auto problem = problem_of(property.cases()(random.split(), rc::kNominalSize).value());
            problem::visit_settings([&](const std::string& key, auto member, const auto&...) {
                drawn[key].insert(problem::setting_text(problem.settings.*member));
            });
        }
    for (const auto& [key, values] : drawn)
        EXPECT_EQ(values.size() > 1, key != "decay_order" && key != "k_rounding") << key;
}

TEST(Case, WhatIsUsualIsLeftOut) {
    EXPECT_EQ(text(Case{}), "steps=1");
    EXPECT_TRUE(parse_case("steps=1") == Case{});
    Case run;
    run.workers = 3;
    run.density = 0.1;
    EXPECT_EQ(text(run), "workers=3,density=0.1");
}

TEST(Case, WrongTextIsRefusedInOneLineThatSaysWhat) {
    for (const auto& [line, part] : std::vector<std::pair<std::string, std::string>>{
             {"", "not KEY=VALUE"},
             {"workers", "not KEY=VALUE"},
             {"colour=red", "not KEY=VALUE"},
             {"workers=0", "workers"},
             {"groups=2+0", "at least 1 rank"},
             {"groups=2:1", "with commas between"},
             {"workers=two", "must be a number"},
             {"workers=2147483648", "must be a number"},
             {"density=0", "density"},
             {"density=nan", "density"},
             {"tensors=a", "name:size"},
             {"tensors=a:-1", "size"},
             {"tensors=a:0", "parameter"},
             {"partition=by_hand", "by_shard"},
             {"correction=some", "none"},
             {"schedule=stepwise", "geometric, linear or jumps"},
             {"owners=all", "range or turn"},
             {"owners=turn,payload=bf16_both", "set owners to range"},
             {"data=gauss", "must be one of"},
             {"steps=0", "steps"},
             {"rank=-1", "negative"},
             {"other_workers=0", "workers"},
             {"script=jump", "restart:WORKERS"},
             {"script=restart:0", "workers"},
             {"beta1=1", "beta1"},
             {"parts=0", "1 to a thousand"},
             {"buckets=-4", "bytes of one, or 0"},
             {"cuts=forward", "backward, rebuilt or wild"},
             {"damage=torn:0", "bit:FILE:BYTE:BIT, shorter:FILE or longer:FILE"},
             {"damage=bit:0:1", "bit:FILE:BYTE:BIT"},
             {"damage=bit:0:1:8", "bits from 0 to 7"},
             {"damage=shorter:-1", "files count from 0"},
         })
        try {
            static_cast<void>(parse_case(line));
            ADD_FAILURE() << "'" << line << "' was read";
        } catch (const Error& error) {
            const std::string message = error.what();
            EXPECT_NE(message.find(part), std::string::npos) << "'" << line << "': " << message;
            EXPECT_EQ(message.find('\n'), std::string::npos);
        }
}

TEST(Case, GroupsGoOnAsLongAsThereAreRanks) {
    Case run;
    run.workers = 8;
    EXPECT_TRUE(groups_of(run).empty());
    run = parse_case("workers=8,groups=3+2");
    EXPECT_EQ(text(run), "workers=8,groups=3+2");
    EXPECT_EQ(groups_of(run), (problem::Groups{3, 2, 3}));
    EXPECT_EQ(problem_of(run).settings.groups, groups_of(run));
    run.workers = 4;
    EXPECT_EQ(groups_of(run), (problem::Groups{3, 1}));
    run.workers = 1;
    EXPECT_EQ(groups_of(run), problem::Groups{1});
}

TEST(Case, GradientsFollowFromSeedRankStepAndCoordinate) {
    Case run;
    run.tensors = {{"a", 40, false}};
    run.workers = 3;
    const Gradients first = gradients_of(run, 1);
    ASSERT_EQ(first.size(), 3U);
    EXPECT_EQ(first, gradients_of(run, 1));
    EXPECT_NE(first, gradients_of(run, 2));
    EXPECT_NE(first[0], first[1]);
    Case other = run;
    other.seed = 1;
    EXPECT_NE(first, gradients_of(other, 1));
    other = run;
    other.silent = 1;
    EXPECT_EQ(gradients_of(other, 1)[1], std::vector<float>(40, 0.0F));
    EXPECT_EQ(gradients_of(other, 1)[2], first[2]);
}

TEST(Case, GradientsAreTheSumsOfTheirPartsInOrder) {
    Case run;
    run.tensors = {{"a", 400, false}};
    run.workers = 2;
    run.data = problem::DataClass::limit; // has 24 bits, so that sums round
    EXPECT_TRUE(parts_of(run, 1).empty());
    const Gradients alone = gradients_of(run, 1);
    run.parts = 8;
    const std::vector<Gradients> parts = parts_of(run, 1);
    const Gradients sum = gradients_of(run, 1);
    ASSERT_EQ(parts.size(), 8U);
    EXPECT_EQ(8.0F * parts[0][1][7], alone[1][7]) << "their sum must not exceed the limit";
    EXPECT_NE(parts[1], parts[2]);
    int rounded = 0;
    for (std::size_t rank = 0; rank < 2; ++rank)
        for (std::size_t i = 0; i < 400; ++i) {
            float forward = parts.front()[rank][i];
            float back = parts.back()[rank][i];
            for (std::size_t part = 1; part < 8; ++part) {
                forward += parts[part][rank][i];
                back += parts[7 - part][rank][i];
            }
            EXPECT_EQ(sum[rank][i], forward);
            rounded += forward != back ? 1 : 0;
        }
    EXPECT_GT(rounded, 0) << "no order could be told from another";
}

TEST(Case, CutsHoldEveryTensorOnceAndChangeAsTheirRuleSays) {
    Case run;
    run.tensors = {{"a", 3, false}, {"b", 1, true}, {"c", 0, false}, {"d", 10, false}, {"e", 2, false}};
    EXPECT_TRUE(cut_of(run, 1).empty());
    run.bucket_bytes = 16;
    EXPECT_EQ(cut_of(run, 1), (Cut{{4}, {3}, {2, 1, 0}}));
    EXPECT_EQ(cut_of(run, 2), cut_of(run, 1));
    run.cuts = CutRule::rebuilt;
    EXPECT_EQ(cut_of(run, 1), (Cut{{4}, {3}, {2, 1, 0}}));
    EXPECT_EQ(cut_of(run, 2), (Cut{{2, 1, 0, 4}, {3}}));
    EXPECT_EQ(cut_of(run, 3), cut_of(run, 2));
    run.cuts = CutRule::wild;
    std::set<Cut> different;
    int left_out = 0;
    for (Index step = 1; step <= 8; ++step) {
        std::vector<std::size_t> all;
        for (const auto& tensors : cut_of(run, step))
            all.insert(all.end(), tensors.begin(), tensors.end());
        std::ranges::sort(all);
        const std::size_t empty = std::erase(all, std::size_t{2}); // may be left out
        EXPECT_LE(empty, 1U);
        left_out += empty == 0 ? 1 : 0;
        EXPECT_EQ(all, (std::vector<std::size_t>{0, 1, 3, 4}));
        different.insert(cut_of(run, step));
    }
    EXPECT_GT(different.size(), 2U);
    EXPECT_GT(left_out, 0);
    EXPECT_LT(left_out, 8);
}

} // namespace
} // namespace truestep::properties::scape
