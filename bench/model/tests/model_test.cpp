// Compares the model's bytes with the peers' formulas, its seconds with figures worked out by hand,
// and its fit with a known machine.
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

#include "model/fit.hpp"
#include "model/meetings.hpp"
#include "model/model.hpp"
#include "model/plot.hpp"
#include "peers/peer.hpp"

namespace truestep::model {
namespace {

using problem::Index;
using problem::gasloc::Law;

bool exists(Law law, int workers) {
    const bool power = std::has_single_bit(static_cast<unsigned>(workers));
    return law != Law::given && (law != Law::hypercube || power);
}

TEST(Model, SendsTheBytesOfThePeersFormulas) {
    const peers::Setting setting{1 << 26};
    for (const peers::Kind& kind : peers::kinds())
        for (const int ranks : {2, 4, 8, 64}) {
            const Work work = work_of(kind.name, {1 << 26, static_cast<double>(ranks)});
            const double expected = peers::formula_bytes(kind.name, setting, ranks, 0) /
                                    static_cast<double>(peers::inner_steps(kind, setting));
            // k and the blocks of a mask are rounded in each segment.
            EXPECT_NEAR(work.values + work.mask, expected, 0.003 * expected) << kind.name << ' ' << ranks;
        }
}

TEST(Model, GivesTheFiguresWorkedOutByHand) {
    // 0.5e9 parameters, 32 ranks, 50 GB/s: f = 31/32; dense 8 B, 77.5 ms; values 0.08 B, 0.775 ms;
    // positions 0.01392 B, 0.135 ms; a bitmap 0.125 B, 1.21 ms.
    const Setting setting{0.5e9, 32, 0.01};
    Machine machine;
    machine.latency = 0;
    machine.overhead = 0;
    EXPECT_NEAR(seconds_of("dense", setting, machine).values, 77.5e-3, 0.01e-3);
    EXPECT_NEAR(seconds_of("dense-bf16-all", setting, machine).values, 38.75e-3, 0.01e-3);
    EXPECT_NEAR(seconds_of("scape", setting, machine).values, 0.775e-3, 0.001e-3);
    EXPECT_NEAR(seconds_of("scape-bf16", setting, machine).values, 0.581e-3, 0.001e-3);      // 0.06 B
    EXPECT_NEAR(seconds_of("scape-e5m2", setting, machine).values, 0.484e-3, 0.001e-3);      // 0.05 B
    EXPECT_NEAR(seconds_of("scape-bf16-both", setting, machine).values, 0.387e-3, 0.001e-3); // 0.04 B
    EXPECT_NEAR(seconds_of("scape-e5m2-both", setting, machine).values, 0.194e-3, 0.001e-3); // 0.02 B
    EXPECT_NEAR(seconds_of("scape", setting, machine).mask, 0.1349e-3, 0.001e-3);
    EXPECT_NEAR(seconds_of("scape-bitmap", setting, machine).mask, 1.211e-3, 0.001e-3);
}

TEST(Model, LocalSchemesSendThePeersBytesExactlyAtEveryHAndLaw) {
    for (const Law law : problem::gasloc::all_laws)
        for (const int ranks : {1, 2, 3, 4, 7, 8, 64})
            for (const Index inner_steps : {1, 10, 100}) {
                if (!exists(law, ranks))
                    continue;
                const peers::Setting setting{1 << 20, 0.01, {}, inner_steps, law};
                const double steps = static_cast<double>(inner_steps);
                const double n = ranks;
                for (const char* scheme : {"diloco", "gasloc"})
                    EXPECT_DOUBLE_EQ(work_of(scheme, {1 << 20, n, 0.01, 0, steps, law}).values,
                                     peers::formula_bytes(scheme, setting, ranks) / n / steps)
                        << scheme << ' ' << problem::gasloc::name(law) << ' ' << ranks << ' '
                        << inner_steps;
            }
}

TEST(Meetings, AreTheEdgesOfTheGraphs) {
    for (const Law law : problem::gasloc::all_laws)
        for (int workers = 1; workers <= 20; ++workers) {
            if (!exists(law, workers))
                continue;
            const Index rounds = std::max<Index>(problem::gasloc::period_of(law, workers), 1);
            double edges = 0;
            for (Index round = 1; round <= rounds; ++round)
                edges += static_cast<double>(problem::gasloc::graph_of(law, 1, round, workers).size());
            EXPECT_NEAR(meetings(law, workers), edges / static_cast<double>(rounds), 1e-12)
                << problem::gasloc::name(law) << ' ' << workers;
        }
    EXPECT_EQ(meetings(Law::complete, 1e6), 1e6 * (1e6 - 1) / 2);
    EXPECT_THROW(static_cast<void>(meetings(Law::hypercube, 6)), Error);
    EXPECT_THROW(static_cast<void>(meetings(Law::given, 4)), Error);
}

TEST(Model, ALocalStepIsAnHthOfItsRound) {
    // d = 1e9, P = 4. gasloc in pairs: a message of 4e9 B to one; inner 20, drift 12, gossip 16 a
    // parameter.
    const auto round = [](const char* scheme, double H, Law law) {
        Work work = work_of(scheme, {1e9, 4, 0.01, 0, H, law});
        work.values *= H;
        work.messages *= H;
        work.exchanges *= H;
        work.passes *= H;
        return work;
    };
    const Work pairs = round("gasloc", 10, Law::pairs);
    EXPECT_DOUBLE_EQ(pairs.values, 4e9);
    EXPECT_DOUBLE_EQ(pairs.messages, 1);
    EXPECT_DOUBLE_EQ(pairs.exchanges, 1);
    EXPECT_DOUBLE_EQ(pairs.passes, (200 + 28) * 1e9);
    const Work complete = round("gasloc", 10, Law::complete);
    EXPECT_DOUBLE_EQ(complete.values, 12e9);
    EXPECT_DOUBLE_EQ(complete.messages, 3);
    EXPECT_DOUBLE_EQ(complete.exchanges, 1);
    EXPECT_DOUBLE_EQ(complete.passes, (200 + 36) * 1e9);
    const Work none = round("gasloc", 10, Law::none);
    EXPECT_DOUBLE_EQ(none.values + none.messages + none.exchanges, 0);
    // diloco: 3/4 of the models to their owners, 3/4 of them back; the sum of four, the shard five times.
    const Work mean = round("diloco", 100, Law::pairs);
    EXPECT_DOUBLE_EQ(mean.values, 6e9);
    EXPECT_DOUBLE_EQ(mean.messages, 6);
    EXPECT_DOUBLE_EQ(mean.exchanges, 2);
    EXPECT_DOUBLE_EQ(mean.passes, (2000 + 10) * 1e9);

    // With H = 1 an exchange a step; the more steps, the nearer to the inner step alone.
    Machine machine;
    machine.bandwidth = 125e6;
    const auto seconds = [&](double H) {
        return seconds_of("gasloc", {1e9, 4, 0.01, 0.5, H}, machine).step;
    };
    EXPECT_GT(seconds(1), 32);
    EXPECT_NEAR(seconds(1e9), 0.5 + 20e9 / machine.memory, 1e-6);
}

TEST(Model, AMaskHidesBehindComputeAsFarAsThatLasts) {
    Setting setting{1e9, 8, 0.01};
    Machine machine;
    machine.bandwidth = 1e9;
    const Seconds bare = seconds_of("scape", setting, machine);
    EXPECT_DOUBLE_EQ(bare.step, bare.values + bare.messages + bare.local + bare.mask);
    setting.compute = 1;
    EXPECT_DOUBLE_EQ(seconds_of("scape", setting, machine).step, 1 + bare.step - bare.mask);
    setting.compute = bare.mask / 2;
    EXPECT_NEAR(seconds_of("scape", setting, machine).step, bare.step, 1e-12);
}

TEST(Model, AHierarchySendsTheSameBytesInFewerMessages) {
    const Setting setting{1e9, 4096, 0.01};
    const Work flat = work_of("scape", setting);
    const Work levels = work_of("scape-hierarchy", setting);
    EXPECT_NEAR(levels.values, flat.values, 1e-3 * flat.values);
    EXPECT_LT(levels.messages, flat.messages / 30);
    // In groups of 8, as machines have them.
    const Work in_eights = work_of("scape-hierarchy", {1e9, 4096, 0.01, 0, 30, Law::pairs, 8});
    EXPECT_EQ(in_eights.messages, 3 * (7 + 512));
    EXPECT_EQ(in_eights.values, levels.values);
}

/// 16,384 ranks at 50 GB/s: three exchanges of 16,383 messages of 1 us take 49 ms; 127 + 128
/// messages in groups take 0.8.
TEST(Model, AHierarchyTakesTheMessagesAway) {
    const Setting setting{1.8e9, 16384, 0.01};
    EXPECT_NEAR(seconds_of("scape", setting, Machine{}).messages, 49.2e-3, 0.1e-3);
    EXPECT_NEAR(seconds_of("scape-hierarchy", setting, Machine{}).messages, 0.795e-3, 0.001e-3);
    EXPECT_LT(seconds_of("scape-hierarchy", setting, Machine{}).step, 17.5e-3);
}

TEST(Model, FindsTheBandwidthOfARatio) {
    const Setting setting{1e9, 8, 0.01, 0.1};
    Machine machine;
    machine.bandwidth = bandwidth_for(3, "scape", "dense", setting, machine);
    EXPECT_NEAR(speed_up("scape", setting, machine), 3, 1e-6);
    EXPECT_EQ(bandwidth_for(1000, "scape", "dense", setting, machine), 0);
}

TEST(Model, TheEntropyOfAMask) {
    EXPECT_NEAR(mask_entropy(0.01), 0.0101, 0.00005);
    EXPECT_NEAR(mask_entropy(0.5), 0.125, 1e-12);
    EXPECT_EQ(mask_entropy(1), 0);
}

TEST(Fit, FindsTheMachineThatMadeTheFigures) {
    const Machine truth{0, 2e-3, 0, 1.5e-9, 6e9, 4e-9};
    std::vector<Measured> rows;
    for (const double bandwidth : {125e6, 1250e6})
        for (const double size : {1e6, 4e6, 16e6})
            for (const char* scheme : {"dense", "dense-bf16", "topk-indices", "scape"}) {
                Machine machine = truth;
                machine.bandwidth = bandwidth;
                const Setting setting{size, 4, 0.01};
                rows.push_back({scheme, setting, bandwidth, seconds_of(scheme, setting, machine).step});
            }
    const Machine found = fit(rows, {0, 0, 0, 0, 0, 0});
    EXPECT_NEAR(found.latency, truth.latency, 1e-6 * truth.latency);
    EXPECT_NEAR(found.transport, truth.transport, 1e-6 * truth.transport);
    EXPECT_NEAR(found.memory, truth.memory, 1e-6 * truth.memory);
    EXPECT_NEAR(found.irregular, truth.irregular, 1e-6 * truth.irregular);
}

TEST(Fit, TakesADelayOffEachExchange) {
    // Worked out by hand: adamw's four exchanges of 20 ms and of 1 ms of the machine's own.
    const Machine truth{0, 1e-3, 0, 1.5e-9, 6e9, 4e-9};
    const Measured adamw{"adamw", {1e6, 4, 0.01}, 125e6, 0, 20e-3};
    EXPECT_NEAR(predicted(adamw, truth), 84e-3 + (6e6 + 51) / 125e6 + (6e6 + 51) * 1.5e-9 + 18.5e6 / 6e9,
                1e-12);
    std::vector<Measured> rows;
    for (const double delay : {0.0, 1e-4, 20e-3})
        for (const double size : {1e6, 4e6, 16e6})
            for (const char* scheme : {"dense", "dense-bf16", "topk-indices", "scape"}) {
                rows.push_back({scheme, {size, 4, 0.01}, 125e6, 0, delay});
                rows.back().seconds = predicted(rows.back(), truth);
            }
    const Machine found = fit(rows, {0, 0, 0, 0, 0, 0});
    EXPECT_NEAR(found.latency, truth.latency, 1e-6 * truth.latency);
    EXPECT_NEAR(found.memory, truth.memory, 1e-6 * truth.memory);
}

TEST(Fit, RefusesStepsThatDoNotTellTheConstantsApart) {
    const std::vector<Measured> rows(5, Measured{"dense", {1e6, 4, 0.01}, 1e9, 0.1});
    EXPECT_THROW(static_cast<void>(fit(rows, {})), Error);
}

TEST(Model, AnUnknownSchemeIsRefused) {
    EXPECT_THROW(static_cast<void>(work_of("ring", {1e6, 4, 0.01})), Error);
    EXPECT_THROW(static_cast<void>(work_of("scape-ring", {1e6, 4, 0.01})), Error);
}

TEST(Fit, FindsTheExponentAndHowFarThePointsAreOff) {
    const Curve exact{"", {1, 2, 4, 8}, {100, 12, 48, 192}, true}; // 3 x^2 from 2 on
    const auto fit = fit_power(exact, 2);
    ASSERT_TRUE(fit);
    EXPECT_NEAR(fit->exponent, 2, 1e-12);
    EXPECT_NEAR(fit->factor, 3, 1e-12);
    EXPECT_NEAR(fit->residual, 0, 1e-12);
    EXPECT_NEAR(fit->from, 2, 1e-12);
    EXPECT_NEAR(fit->to, 8, 1e-12);
    EXPECT_NEAR(fit->at(16), 768, 1e-9);
    EXPECT_FALSE(fit_power(exact, 4)) << "two points";

    // Off by a tenth, up and down, so that the slope stays: exp(0.1) and exp(-0.1) where they balance.
    const double up = std::exp(0.1);
    const auto rough = fit_power({"", {1, 2, 4, 8}, {up, 2 / up, 4 / up, 8 * up}, true}, 1);
    ASSERT_TRUE(rough);
    EXPECT_NEAR(rough->exponent, 1, 1e-12);
    EXPECT_NEAR(rough->residual, 0.1, 1e-12);
    EXPECT_NEAR(rough->largest, 0.1, 1e-12);
}

TEST(Plot, DrawsEveryCurveAndNamesIt) {
    const Plot plot{
        "title", "x", "y", {{"line", {1, 10, 100}, {1, 2, 3}}, {"marks", {1, 10}, {5, 6}, true}}};
    const std::string svg = plot.svg();
    EXPECT_NE(svg.find("<path class=\"curve line0\" d=\"M46 "), std::string::npos);
    EXPECT_NE(svg.find("<path class=\"dot line1\" d=\"M46 "), std::string::npos);
    EXPECT_NE(svg.find(">line<"), std::string::npos);
    EXPECT_NE(svg.find(">marks<"), std::string::npos);
    EXPECT_NE(svg.find("prefers-color-scheme"), std::string::npos);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Plot, AFitLooksLikeItsPoints) {
    const Plot plot{"", "", "", {{"a", {1, 9}, {1, 9}, true}, {"", {1, 9}, {1, 9}}, {"b", {1, 9}, {9, 1}}}};
    const std::string svg = plot.svg();
    const auto times = [&](const std::string& text) {
        int count = 0;
        for (std::size_t at = svg.find(text); at != std::string::npos; at = svg.find(text, at + 1))
            ++count;
        return count;
    };
    EXPECT_EQ(times(" line0\""), 3) << "the points, the line, the name";
    EXPECT_EQ(times(" line1\""), 2) << "the line, the name";
    EXPECT_EQ(times("class=\"name\""), 2);
    EXPECT_EQ(times(">5<"), 2) << "the grid is finer where values span little";
}

} // namespace
} // namespace truestep::model
