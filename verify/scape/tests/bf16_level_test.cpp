// Tests level BF16: runs that store and compute everything in bf16.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/verify/compare_with_reference.hpp>
#include <truestep/verify/scape/record.hpp>
#include <truestep/verify/scape/run.hpp>
#include <truestep/verify/scape/trace.hpp>

#include "bf16_stranger.hpp"
#include "verify_trace_support.hpp"

namespace truestep::verify::scape {
namespace {

using support::contains;
using support::error_of;
using support::FileImage;
using support::Habits;
using support::KnownBug;
using support::record_stranger;
using support::row;
using support::set_element;

constexpr std::array values_of_a_step{"local",    "exchanged",    "reconstructed",
                                      "residual", "first_moment", "parameters"};

/// Rates that bf16 can represent well: 0.05 of a direction, 0.975 of a parameter.
RecordOptions run_of(const problem::HyperParameters& settings = {}, int workers = 3) {
    RecordOptions options = support::small_run(problem::Algorithm::scape, settings, workers);
    options.problem.settings.weight_decay = 0.5;
    options.learning_rate = options.final_learning_rate = 0.05;
    return options;
}

TraceVerdict at_bf16(const std::filesystem::path& path) {
    return verify_from(path, ReferenceStart::recorded, Level::bf16());
}

std::vector<RecordOptions> many_runs() {
    std::vector<RecordOptions> all;
    for (const auto algorithm : {problem::Algorithm::scape, problem::Algorithm::adams})
        for (const int workers : {1, 3, 8})
            for (const auto correction : {problem::BiasCorrection::none, problem::BiasCorrection::adam,
                                          problem::BiasCorrection::momentum})
                for (const double clip_norm : {0.0, 0.5}) {
                    problem::HyperParameters settings;
                    settings.bias_correction = correction;
                    settings.clip_norm = algorithm == problem::Algorithm::scape ? clip_norm : 0.0;
                    all.push_back(support::small_run(algorithm, settings, workers));
                }
    for (const auto payload : {problem::Payload::bf16, problem::Payload::e5m2}) {
        problem::HyperParameters settings;
        settings.payload = payload;
        all.push_back(support::small_run(problem::Algorithm::scape, settings));
    }
    return all;
}

class Bf16LevelTest : public VerifyTraceTest {};

TEST_F(Bf16LevelTest, TheReferenceOverBf16PassesItAndNothingStricter) {
    for (RecordOptions options : many_runs()) {
        options.arithmetic = Arithmetic::bf16;
        record(path_, options);
        const TraceVerdict verdict = at_bf16(path_);
        EXPECT_EQ(verdict.status, Status::passed) << text_report(verdict);
        for (const Level& level : {Level::exact(), Level::rel()}) {
            const TraceVerdict stricter = verify_from(path_, ReferenceStart::recorded, level);
            EXPECT_EQ(stricter.status, Status::failed) << name(level);
            EXPECT_TRUE(contains(text_report(stricter), "use --level bf16"));
        }
    }
}

TEST_F(Bf16LevelTest, ARunInFp32IsMoreExactAndPasses) {
    for (const RecordOptions& options : many_runs()) {
        record(path_, options);
        const TraceVerdict verdict = at_bf16(path_);
        EXPECT_EQ(verdict.status, Status::passed) << text_report(verdict);
    }
}

TEST_F(Bf16LevelTest, AWrongRunInFp32IsNotSentToIt) {
    record(path_, run_of());
    set_element(path_, "step/0003/parameters", 80, 1.0F);
    EXPECT_FALSE(contains(text_report(verify_from(path_, ReferenceStart::recorded)), "use --level bf16"));
}

TEST_F(Bf16LevelTest, AStrangerWithoutHabitsWritesWhatTheReferenceOverBf16Does) {
    for (const double clip_norm : {0.0, 0.5})
        for (const int workers : {1, 3, 5}) {
            problem::HyperParameters settings;
            settings.clip_norm = clip_norm;
            RecordOptions options = run_of(settings, workers);
            options.arithmetic = Arithmetic::bf16;
            record(path_, options);
            const auto other = folder_ / "other.safetensors";
            record_stranger(other, options, {});
            EXPECT_TRUE(support::load(path_) == support::load(other)) << workers << " workers";
        }
}

struct Caught {
    KnownBug known_bug;
    const char* where; ///< the first wrong result
    double beta1 = 0.9;
    double beta2 = 0.95;
};

TEST_F(Bf16LevelTest, EachMistakeInCodeOfBf16Fails) {
    for (const auto& [known_bug, where, beta1, beta2] :
         {Caught{KnownBug::no_bias_correction, "parameters"},
          Caught{KnownBug::decay_into_gradient, "local"}, Caught{KnownBug::decay_grows, "parameters"},
          Caught{KnownBug::beta2_for_beta1, "local"}, Caught{KnownBug::residual_dropped, "residual"},
          Caught{KnownBug::residual_kept, "residual"}, Caught{KnownBug::mean_not_divided, "exchanged"},
          Caught{KnownBug::mean_of_one_rank, "exchanged"},
          Caught{KnownBug::second_moment_of_new, "parameters", 0.5},
          Caught{KnownBug::complement_in_bf16, "parameters", 0.9, 0.999},
          Caught{KnownBug::least_selected, "mask"}, Caught{KnownBug::clip_left_out, "first_moment"},
          Caught{KnownBug::moment_kept_off_mask, "first_moment"}}) {
        problem::HyperParameters settings;
        settings.clip_norm = known_bug == KnownBug::clip_left_out ? 0.5 : 0.0;
        settings.beta1 = beta1;
        settings.beta2 = beta2;
        Habits habits;
        record_stranger(path_, run_of(settings), habits);
        ASSERT_EQ(at_bf16(path_).status, Status::passed) << where << ": it has to be the known bug";
        habits.known_bug = known_bug;
        record_stranger(path_, run_of(settings), habits);
        const TraceVerdict verdict = at_bf16(path_);
        EXPECT_EQ(verdict.status, Status::failed) << where << "\n" << text_report(verdict);
        ASSERT_TRUE(verdict.first.has_value());
        EXPECT_EQ(verdict.first->result, where) << text_report(verdict);
    }
}

Habits drawn(std::mt19937& generator) {
    const auto below = [&](unsigned limit) { return generator() % limit; };
    Habits habits;
    habits.sum = static_cast<Habits::Sum>(below(5));
    habits.local = static_cast<Habits::Local>(below(3));
    for (bool* one : {&habits.fused, &habits.reciprocals, &habits.one_decrement, &habits.squares_apart,
                      &habits.step_size, &habits.in_fp32})
        *one = below(2) == 1;
    return habits;
}

/// Chance does not push rounding to its worst: this measures what share of the limit honest runs
/// use, and prints it for docs/decisions/reference-and-arithmetic.md.
TEST_F(Bf16LevelTest, NoHonestReformulationIsOutside) {
    constexpr unsigned seeds = 300;
    std::map<std::string, double> worst;
    for (unsigned seed = 0; seed < seeds; ++seed) {
        std::mt19937 generator(seed);
        problem::HyperParameters settings;
        settings.clip_norm = generator() % 3 == 0 ? 0.5 : 0.0;
        RecordOptions options = run_of(settings, std::array{1, 2, 3, 5, 8}.at(generator() % 5));
        options.seed = seed;
        record_stranger(path_, options, drawn(generator));
        const TraceVerdict verdict = at_bf16(path_);
        ASSERT_EQ(verdict.status, Status::passed) << "seed " << seed << "\n" << text_report(verdict);
        for (const char* result : values_of_a_step)
            worst[result] = std::max(worst[result], row(verdict, result).share_of_limit);
    }
    for (const char* result : values_of_a_step) {
        std::printf("%-14s at most %.2f of the limit in %u runs\n", result, worst[result], seeds);
        EXPECT_GT(worst[result], 0.1) << result << ": a bound that nothing comes near proves little";
    }
}

/// One step of the reference over T, from the recorded state before it and on the recorded mask.
template <class T>
StepResults<T> step_from(const TraceReader& trace, Index step) {
    const TraceHead& head = trace.head();
    const auto recorded = [&](Result result, Index at, int rank) {
        return to_vector<T>(trace.values(kind_of(result), at, rank).value());
    };
    Run<T> run(head.problem, head.schedule(), to_vector<T>(head.initial_parameters));
    auto state = run.state();
    state.step = step - 1;
    state.S = to_coordinates(trace.mask(kind_of(Result::mask), step).value(), head.problem.layout.size());
    PerRank<T> gradients;
    for (int rank = 0; rank < head.problem.workers; ++rank) {
        gradients.push_back(to_vector<T>(trace.gradient(step, rank)));
        if (step > 1)
            state.e[static_cast<std::size_t>(rank)] = recorded(Result::residual, step - 1, rank);
    }
    if (step > 1) {
        state.w = recorded(Result::parameters, step - 1, 0);
        state.m = recorded(Result::first_moment, step - 1, 0);
    }
    run.restore(std::move(state));
    return run.step(gradients, head.learning_rate[static_cast<std::size_t>(step - 1)]);
}

/// The alternative rule for the level: is a value farther from double than twice the greatest error
/// of plain code in its tensor, and half a unit in its last place?
bool accused_by_what_plain_code_rounded(const TraceReader& trace) {
    const problem::Layout& layout = trace.head().problem.layout;
    for (Index step = 1; step <= trace.head().steps(); ++step) {
        const auto exact = step_from<double>(trace, step);
        const auto plain = step_from<support::Bf16>(trace, step);
        for (const ResultKind& kind : result_kinds)
            for (int rank = 0; !kind.is_mask && rank < (kind.per_rank ? trace.head().problem.workers : 1);
                 ++rank) {
                const Vector<double>& right = *exact.values(kind.result, rank);
                const Vector<support::Bf16>& beside = *plain.values(kind.result, rank);
                const auto actual = trace.values(kind, step, rank).value();
                for (std::size_t tensor = 0; tensor < layout.tensors().size(); ++tensor) {
                    const Index end = layout.begin(tensor) + layout.tensors()[tensor].size;
                    double greatest = 0.0;
                    for (Index i = layout.begin(tensor); i < end; ++i)
                        greatest = std::max(greatest, std::abs(static_cast<double>(beside[i]) - right[i]));
                    for (Index i = layout.begin(tensor); i < end; ++i)
                        if (std::abs(static_cast<double>(actual[static_cast<std::size_t>(i)]) - right[i]) >
                            2.0 * greatest + 0x1p-8 * std::abs(right[i]))
                            return true;
                }
            }
    }
    return false;
}

TEST_F(Bf16LevelTest, ALimitByWhatPlainCodeHappenedToRoundWouldAccuseHonestRuns) {
    constexpr unsigned seeds = 50;
    int accused = 0;
    for (unsigned seed = 0; seed < seeds; ++seed) {
        std::mt19937 generator(seed);
        RecordOptions options = run_of();
        options.seed = seed;
        record_stranger(path_, options, drawn(generator));
        accused += accused_by_what_plain_code_rounded(TraceReader(path_)) ? 1 : 0;
    }
    std::printf("by the other rule %d of %u honest runs would fail\n", accused, seeds);
    EXPECT_GT(accused, 0) << "else it would be the simpler rule";
}

/// M = b1*0 + a1*(g/1) with g = 1 and a1 = 1/8: the mean, the product and the sum may each add half
/// a unit in the last of 8 digits, 3/8 * 2^-8 in all, and rounded values are rounded again.
TEST_F(Bf16LevelTest, TheLimitIsTwiceTheBoundWhichIsWorkedOutByHand) {
    problem::HyperParameters settings;
    settings.beta1 = 0.875;
    RecordOptions options = support::small_run(problem::Algorithm::adams, settings, 1);
    options.steps = 1;
    options.arithmetic = Arithmetic::bf16;
    options.injections = {{1, 0, 3, 1.0F}};
    record(path_, options);
    ASSERT_EQ(support::element<float>(path_, "step/0001/first_moment", 3), 0.125F);
    constexpr double bound = 0.375 * 0x1p-8;
    const auto status_at = [&](double times) {
        set_element(path_, "step/0001/first_moment", 3, static_cast<float>(0.125 + times * bound));
        return at_bf16(path_).status;
    };
    for (const double times : {0.0, 1.0, -1.0, 2.0, -2.0})
        EXPECT_EQ(status_at(times), Status::passed) << times;
    for (const double times : {2.1, -2.1, 2.5, -2.5})
        EXPECT_EQ(status_at(times), Status::failed) << times;
}

TEST_F(Bf16LevelTest, AValueBeyondItsLimitFailsWhereverItStands) {
    RecordOptions options = run_of();
    options.arithmetic = Arithmetic::bf16;
    for (const char* tensor :
         {"step/0002/local/rank1", "step/0003/exchanged", "step/0003/reconstructed",
          "step/0002/residual/rank2", "step/0004/first_moment", "step/0005/parameters"}) {
        record(path_, options);
        const auto value = [&](Index i) { return support::element<float>(path_, tensor, i); };
        Index greatest = 0; // a small one may be the rest of terms that cancel
        for (Index i = 0; i < 81; ++i)
            greatest = std::abs(value(i)) > std::abs(value(greatest)) ? i : greatest;
        set_element(path_, tensor, greatest, -value(greatest));
        const TraceVerdict verdict = at_bf16(path_);
        EXPECT_EQ(verdict.status, Status::failed) << tensor;
    }
}

/// The number of updates that the verdict reports as hidden, if it does.
std::string hidden_updates(const TraceVerdict& verdict) {
    for (const std::string& note : verdict.notes)
        if (contains(note, "if they were missing"))
            return note.substr(0, note.find(" updates"));
    return {};
}

TEST_F(Bf16LevelTest, WhatItCannotSeeIsSaid) {
    RecordOptions options = support::small_run(problem::Algorithm::adams, {}, 1);
    options.arithmetic = Arithmetic::bf16;
    options.learning_rate = options.final_learning_rate = 1e-5;
    record(path_, options);
    const std::string hidden = hidden_updates(at_bf16(path_));
    EXPECT_TRUE(hidden.ends_with(" of 405")) << hidden;
    EXPECT_GT(std::stoi(hidden), 300) << "81 parameters, 5 steps; few are as small as an update";
    options.learning_rate = options.final_learning_rate = 10.0;
    options.problem.settings.weight_decay = 0.0;
    options.steps = 1; // afterwards moments may cancel
    record(path_, options);
    EXPECT_EQ(hidden_updates(at_bf16(path_)), "");
    EXPECT_EQ(hidden_updates(verify_from(path_, ReferenceStart::recorded, Level::rel())), "")
        << "of BF16 alone";
}

TEST_F(Bf16LevelTest, AFreeRunIsRefusedAndSoIsATraceWithoutStates) {
    record(path_, run_of());
    const std::string free =
        error_of([&] { static_cast<void>(verify_from(path_, ReferenceStart::start, Level::bf16())); });
    EXPECT_TRUE(contains(free, "level BF16 is not available with --from start")) << free;
    EXPECT_TRUE(contains(free, "use --from recorded")) << free;
    change([](FileImage& image) { image.drop("step/0003/first_moment"); });
    for (const std::optional<ReferenceStart> from :
         {std::optional<ReferenceStart>(), std::optional(ReferenceStart::recorded)}) {
        VerifyOptions asked;
        asked.level = Level::bf16();
        asked.from = from;
        const std::string without = error_of([&] { static_cast<void>(verify_trace(path_, asked)); });
        EXPECT_TRUE(contains(without, "begins each step at the recorded state")) << without;
        EXPECT_TRUE(contains(without, "record them")) << without;
    }
}

TEST_F(Bf16LevelTest, ARefusedStepAPartOfARunAndASampleAreCheckedToo) {
    RecordOptions options = run_of();
    options.arithmetic = Arithmetic::bf16;
    options.injections = {{2, 1, 9, std::numeric_limits<float>::quiet_NaN()}};
    record(path_, options);
    EXPECT_EQ(at_bf16(path_).status, Status::passed);
    set_element(path_, "step/0002/parameters", 4, 9.0F);
    EXPECT_EQ(at_bf16(path_).first.value().phase, name(Phase::check));

    options = run_of({.clip_norm = 0.5});
    options.arithmetic = Arithmetic::bf16;
    options.begin = 2;
    options.sample = "norm,mlp";
    record(path_, options);
    const TraceVerdict verdict = at_bf16(path_);
    EXPECT_EQ(verdict.status, Status::passed) << text_report(verdict);
    EXPECT_EQ(verify_from(path_, ReferenceStart::recorded, Level::rel()).status, Status::failed);
}

} // namespace
} // namespace truestep::verify::scape
