// A case is one line of text, and all that follows from it.
#include <gtest/gtest.h>

#include <scape/problem/error.hpp>
#include <scape/properties/property.hpp>

namespace scape::properties {
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
             {"", "not key=value"},
             {"workers", "not key=value"},
             {"colour=red", "not key=value"},
             {"workers=0", "workers"},
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
             {"data=gauss", "must be one of"},
             {"steps=0", "steps"},
             {"rank=-1", "negative"},
             {"other_workers=0", "workers"},
             {"script=jump", "restart:WORKERS"},
             {"script=restart:0", "workers"},
             {"beta1=1", "beta1"},
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

} // namespace
} // namespace scape::properties
