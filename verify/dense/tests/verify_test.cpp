// The verdict on traces of dense training: section 42.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/verify/diagnosis.hpp>

#include "support.hpp"

namespace truestep::verify::dense {
namespace {

using testing::Floats;
using ::testing::HasSubstr;
using testing::one_group;
using testing::two_groups;
using testing::WrittenRun;

TraceVerdict verdict_on(const WrittenRun& run, Level level, const std::string& name) {
    VerifyOptions options;
    options.level = level;
    return verify_trace(run.write(name), options);
}

std::vector<std::string> diagnosis_of(const WrittenRun& run, const std::string& name) {
    VerifyOptions options;
    options.level = Level::rel();
    const TraceVerdict verdict = verify_trace(run.write(name), options);
    EXPECT_EQ(verdict.status, Status::failed);
    return what_may_be_wrong(traces(), verdict, options);
}

std::vector<Group> groups() {
    std::vector<Group> all;
    for (const Rule rule : {Rule::sgd, Rule::adam, Rule::adamw}) {
        all.push_back(group_of(rule, {}));
        all.back().weight_decay = 0.1;
    }
    all.push_back(all.front());
    all.back().momentum = 0.9;
    all.back().nesterov = true;
    all.push_back(all[2]);
    all.back().epsilon_place = EpsilonPlace::uncorrected;
    return all;
}

TEST(DenseVerify, TheReferencesOwnRunsPassAtEveryLevelTheyHave) {
    std::vector<Problem> problems{two_groups()};
    for (const Group& group : groups())
        problems.push_back(one_group(group));
    problems.push_back(two_groups());
    problems.back().clip_norm = 0.5;
    problems.back().copies = Copies::bf16;
    problems.push_back(problems.back());
    problems.back().groups[0].orthogonalization = Orthogonalization::polar_express;
    problems.back().groups[0].iteration = Iteration::bf16;
    problems.back().micro_batches = {2, 2, 2};
    problems.back().order = Order::tree;
    for (const Problem& problem : problems)
        for (const bool intermediates : {false, true})
            for (const Level level : {Level::exact(), Level::rel()}) {
                const TraceVerdict verdict =
                    verdict_on({.claimed = problem, .intermediates = intermediates}, level, "own");
                EXPECT_EQ(verdict.status, Status::passed) << verdict.problem << " " << name(level);
                EXPECT_EQ(verdict.from, ReferenceStart::recorded);
            }
}

TEST(DenseVerify, WithoutMomentsTheReferenceRunsOnItsOwn) {
    const TraceVerdict verdict = verdict_on({.state = false}, Level::rel(), "start");
    EXPECT_EQ(verdict.status, Status::passed);
    EXPECT_EQ(verdict.from, ReferenceStart::start);
}

TEST(DenseVerify, AMomentThatTheConfigDoesNotDeclareIsNotRead) {
    const TraceVerdict verdict = verdict_on({.undeclared = true}, Level::exact(), "undeclared");
    EXPECT_EQ(verdict.status, Status::passed);
    EXPECT_THAT(verdict.problem, HasSubstr("4 micro-batches"));
}

TEST(DenseVerify, NamesThePhaseTheTensorAndTheIndex) {
    const struct {
        Result which;
        const char* phase;
    } all[] = {{Result::mean, "mean"},
               {Result::clipped, "clip"},
               {Result::first_moment, "momentum"},
               {Result::second_moment, "momentum"},
               {Result::orthogonalized, "orthogonalization"},
               {Result::parameters, "update"},
               {Result::copies, "update"}};
    for (const auto& [which, phase] : all)
        for (const Level level : {Level::exact(), Level::rel()}) {
            WrittenRun run;
            run.claimed.clip_norm = 0.5;
            run.claimed.copies = Copies::bf16;
            run.followed = run.claimed;
            run.intermediates = true;
            run.spoil = [&](Result of, Index step, int, Floats& values) {
                if (of == which && step == 2)
                    values[of == Result::second_moment ? 42 : 17] += 0.3F;
            };
            const TraceVerdict verdict = verdict_on(run, level, "phase");
            ASSERT_EQ(verdict.status, Status::failed) << phase;
            EXPECT_EQ(verdict.first->phase, phase);
            EXPECT_EQ(verdict.first->step, 2);
            EXPECT_EQ(verdict.first->result, result(which).kind.name);
            EXPECT_EQ(verdict.first->index, which == Result::second_moment ? 42 : 17);
        }
}

TEST(DenseVerify, JudgesAMatrixByItsDirectionsWhereOnlyParametersAreRecorded) {
    WrittenRun run;
    run.followed.groups[0].iterations = 4;
    EXPECT_EQ(verdict_on(run, Level::rel(), "iterations").status, Status::failed);
    run.followed = run.claimed;
    run.claimed.groups[0].iteration = Iteration::bf16;
    EXPECT_EQ(verdict_on(run, Level::rel(), "bf16").status, Status::passed) << "fp32 is within bf16";
    run.followed.groups[0].scale = Scale::match_rms_adamw;
    const TraceVerdict scaled = verdict_on(run, Level::rel(), "scale");
    EXPECT_EQ(scaled.status, Status::failed);
    EXPECT_THAT(scaled.first->note, HasSubstr("as a matrix, tensor"));
}

TEST(DenseVerify, ASkippedStepHasToChangeNothing) {
    WrittenRun run;
    run.gradients = [](Index step, auto& gradients) {
        if (step == 2)
            gradients[1][0][3] = HUGE_VALF;
    };
    for (const Level level : {Level::exact(), Level::rel()}) {
        run.spoil = [](Result, Index, int, Floats&) {};
        const TraceVerdict verdict = verdict_on(run, level, "skipped");
        EXPECT_EQ(verdict.status, Status::passed);
        EXPECT_EQ(verdict.refused, 1);
        run.spoil = [](Result which, Index step, int, Floats& values) {
            if (which == Result::first_moment && step == 2)
                values *= 0.95F;
        };
        const TraceVerdict changed = verdict_on(run, level, "skipped");
        ASSERT_EQ(changed.status, Status::failed);
        EXPECT_EQ(changed.first->phase, "check");
        EXPECT_EQ(changed.first->rank, 1);
        EXPECT_THAT(changed.first->note, HasSubstr("tensor wq, index 3"));
    }
}

TEST(DenseVerify, AllRanksHaveToHoldTheSame) {
    WrittenRun run{.replicas = trace::Replicas::copies};
    run.spoil = [](Result which, Index step, int rank, Floats& values) {
        if (which == Result::parameters && step == 2 && rank == 2)
            values[44] = std::nextafter(values[44], 1.0F);
    };
    const TraceVerdict verdict = verdict_on(run, Level::rel(), "ranks");
    ASSERT_EQ(verdict.status, Status::failed);
    EXPECT_EQ(verdict.first->rank, 2);
    EXPECT_EQ(verdict.first->index, 44);
}

TEST(DenseVerify, ReadsItsOwnConfigAndRefusesEveryOtherOneInOneLine) {
    Config config{two_groups(), 3, 2};
    config.problem.groups[0].orthogonalization = Orthogonalization::polar_express;
    const std::string text = config_text(config);
    EXPECT_EQ(config_text(parse_config(text, "t")), text);
    EXPECT_EQ(parse_config(text, "t").problem, config.problem);
    const auto refused = [&](const std::string& from, const std::string& to) -> std::string {
        std::string changed = text;
        const auto at = changed.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        changed.replace(at, from.size(), to);
        try {
            static_cast<void>(parse_config(changed, "t"));
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_THAT(refused("\"role\":\"vector\"", "\"role\":\"\""), HasSubstr("tensor norm has no role"));
    EXPECT_THAT(refused(",\"role\":\"vector\"", ""), HasSubstr("tensor norm has no role"));
    EXPECT_THAT(refused("\"iterations\":5", "\"iteration_count\":5"), HasSubstr("no 'iterations'"));
    EXPECT_THAT(refused("\"beta1\":0.9", "\"beta1\":0.9,\"amsgrad\":true"), HasSubstr("amsgrad"));
    EXPECT_THAT(refused("\"rule\":\"adamw\"", "\"rule\":\"lion\""),
                HasSubstr("rule is 'lion'; it must be one of sgd, adam, adamw, muon"));
    EXPECT_THAT(refused("\"shape\":[5]", "\"shape\":[-5]"), HasSubstr("shape has -5"));
    EXPECT_THAT(refused("\"micro_batches\":[2,1,1]", "\"micro_batches\":[2,1]"),
                HasSubstr("micro_batches has 2 numbers"));
    EXPECT_THAT(refused("[2,1,1],\"order\":\"rank\"", "[1,2,1],\"order\":\"tree\""),
                HasSubstr("rank 1 has micro-batches 1 to 2 of 4"));
}

TEST(DenseDiagnosis, NamesTheRuleThatARunFollowsInPlaceOfItsClaim) {
    const auto line = [](const WrittenRun& run) {
        const auto lines = diagnosis_of(run, "rule");
        return lines.empty() ? "" : lines.front();
    };
    Group plain = group_of(Rule::sgd, {});
    WrittenRun run{.claimed = one_group(group_of(Rule::adamw, {})), .state = false};
    run.followed = one_group(plain);
    EXPECT_EQ(line(run), "every value agrees with plain SGD, lr 0.01: this optimizer is not the AdamW that "
                         "it claims to be");
    run.followed = one_group(group_of(Rule::adam, {}));
    run.followed.groups[0].weight_decay = 0.01;
    EXPECT_EQ(line(run),
              "every value agrees with Adam with coupled weight decay, lr 0.01: this optimizer is "
              "not the AdamW that it claims to be");
    run = WrittenRun{.state = false};
    run.followed.groups[0] = group_of(Rule::adamw, {"matrix"});
    run.followed.groups[0].weight_decay = 0.1;
    EXPECT_EQ(line(run), "every value agrees with AdamW, lr 0.01: this optimizer is not the Muon "
                         "and AdamW that it claims to be");
    run.followed = run.claimed;
    run.followed.groups[0].nesterov = false;
    EXPECT_THAT(line(run), HasSubstr("every value agrees with nesterov the other way"));
    run.followed = run.claimed;
    run.followed.accumulation = Accumulation::sum;
    run.followed.groups[0] = run.claimed.groups[0] = plain;
    run.followed.groups[0].roles = run.claimed.groups[0].roles = {"matrix"};
    EXPECT_THAT(line(run), HasSubstr("gradients divided by the number of ranks"));
}

} // namespace
} // namespace truestep::verify::dense
