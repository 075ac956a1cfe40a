// A plain DiLoCo with known bugs that can be switched on: verify has to name each, in GASLoC's
// words.
#include <cstddef>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/problem/data.hpp>
#include <truestep/problem/gasloc/graph.hpp>
#include <truestep/verify/diagnosis.hpp>
#include <truestep/verify/gasloc/traces.hpp>
#include <truestep/verify/report.hpp>

namespace truestep::verify::gasloc {
namespace {

using Doubles = std::vector<double>;

enum class SeededBug {
    none,
    sum,
    uphill,
    uphill_average,
    plain_momentum,
    no_momentum,
    no_pull,
    not_taken_over,
    drift_of_skipped
};

/// Workers that take SGD steps and meet all others after each round. They compute in double and
/// round what they store: the bits differ from the reference's, but are within REL.
class DiLoCo {
  public:
    /// Worker 1 skips this round: its second gradient is not finite.
    DiLoCo(const Config& config, SeededBug slip, Index skipped)
        : config_(config), slip_(slip), skipped_(skipped) {
        for (int worker = 0; worker < config.workers; ++worker) {
            theta_.emplace_back();
            for (Index i = 0; i < config.layout.size(); ++i)
                theta_.back().push_back(
                    stored(problem::initial_parameter(problem::DataClass::normal, 3, i)));
        }
        before_ = last_ = theta_;
    }

    [[nodiscard]] std::vector<float> start() const { return floats(theta_[0]); }

    void round(trace::Writer& writer, Index round, double rate) {
        const auto n = theta_.size();
        const std::size_t size = theta_[0].size();
        std::vector<Doubles> x = theta_;
        const auto skips = [&](std::size_t worker) { return round == skipped_ && worker == 1; };
        writer.begin_step();
        for (Index h = 1; h <= 2; ++h)
            for (std::size_t worker = 0; worker < n; ++worker) {
                std::vector<float> g(size);
                problem::fill_gradient(g, problem::DataClass::normal, 3, static_cast<int>(worker),
                                       (round - 1) * 10 + h);
                const bool refused = skips(worker) && h == 2;
                if (refused)
                    g[3] = std::numeric_limits<float>::infinity();
                writer.input(gradient_kind(h), static_cast<int>(worker), g);
                if (refused)
                    continue;
                for (std::size_t i = 0; i < size; ++i)
                    x[worker][i] = stored(x[worker][i] - (rate * static_cast<double>(g[i])));
            }
        const Settings& s = config_.settings;
        std::vector<Doubles> y = theta_;
        for (std::size_t worker = 0; worker < n; ++worker)
            for (std::size_t i = 0; i < size; ++i) {
                const bool stays = skips(worker) && slip_ != SeededBug::drift_of_skipped;
                const double drift = stays ? 0.0 : s.eta * (x[worker][i] - theta_[worker][i]);
                y[worker][i] = stored(theta_[worker][i] + (slip_ == SeededBug::uphill ? -drift : drift));
            }
        std::vector<Doubles> z = y;
        std::vector<Doubles> after = y;
        for (std::size_t worker = 0; worker < n; ++worker)
            for (std::size_t i = 0; i < size; ++i) {
                double start = 0;
                double drift = 0;
                for (std::size_t other = 0; other < n; ++other) {
                    start += theta_[other][i] / static_cast<double>(n);
                    drift += (y[other][i] - theta_[other][i]) /
                             (slip_ == SeededBug::sum ? 1.0 : static_cast<double>(n));
                }
                if (slip_ != SeededBug::no_pull)
                    z[worker][i] = stored(start + (slip_ == SeededBug::uphill_average ? -drift : drift));
                const double move = slip_ == SeededBug::plain_momentum
                                        ? theta_[worker][i] - last_[worker][i]
                                    : slip_ == SeededBug::no_momentum ? 0.0
                                                                      : z[worker][i] - before_[worker][i];
                after[worker][i] = slip_ == SeededBug::not_taken_over
                                       ? x[worker][i]
                                       : stored(z[worker][i] + (s.gamma * move));
            }
        last_ = theta_;
        theta_ = after;
        before_ = z;
        for (const auto& [which, values] : {std::pair{Result::drifted, &y}, std::pair{Result::gossiped, &z},
                                            std::pair{Result::parameters, &after}}) {
            std::vector<std::vector<float>> all;
            for (const Doubles& one : *values)
                all.push_back(floats(one));
            writer.result(result(which).kind, [&](int worker) {
                return std::span<const float>(all[static_cast<std::size_t>(worker)]);
            });
        }
    }

  private:
    static double stored(double value) { return static_cast<double>(static_cast<float>(value)); }
    static std::vector<float> floats(const Doubles& values) {
        std::vector<float> all;
        for (const double value : values)
            all.push_back(static_cast<float>(value));
        return all;
    }

    Config config_;
    SeededBug slip_;
    Index skipped_;
    std::vector<Doubles> theta_, before_, last_;
};

class GaslocMistakesTest : public testing::Test {
  protected:
    ~GaslocMistakesTest() override { std::filesystem::remove(path_); }

    void record_plain(SeededBug slip, Index rounds = 4, Index skipped = 0) const {
        Config config{{}, 3, problem::Layout({{"wq", 30, false}, {"norm", 5, true}}), rounds * 3, {}};
        config.settings.inner = Inner::sgd;
        config.settings.hyper.weight_decay = 0.0;
        config.settings.law = Law::complete;
        config.settings.alpha = 1.0;
        config.settings.gamma = 0.5;
        config.settings.eta = 0.7;
        config.settings.momentum = Momentum::gossiped;
        config.inner_steps.assign(static_cast<std::size_t>(rounds), std::vector<Index>(3, 2));
        DiLoCo run(config, slip, skipped);
        trace::Writer writer(path_, schema(config), "a test", false, trace::Replicas::none);
        writer.series("initial/parameters", std::span<const float>(run.start()));
        writer.series("learning_rate",
                      std::span<const double>(Doubles(static_cast<std::size_t>(2 * rounds), 0.05)));
        const std::vector<double> edges = edges_series(config);
        writer.series("edges", std::span<const double>(edges));
        for (Index round = 1; round <= rounds; ++round)
            run.round(writer, round, 0.05);
        writer.finish();
    }

    [[nodiscard]] std::vector<std::string> diagnosis(const verify::Level& level) const {
        verify::VerifyOptions options;
        options.level = level;
        return what_may_be_wrong(traces(), verify_trace(path_, options), options);
    }

    void expect_named(SeededBug slip, const std::string& name, Index rounds = 4) const {
        record_plain(slip, rounds);
        for (const verify::Level& level : {verify::Level::exact(), verify::Level::rel()}) {
            const auto lines = diagnosis(level);
            ASSERT_FALSE(lines.empty()) << "nothing said of '" << name << "'";
            EXPECT_EQ(lines.front().rfind(name + ": ", 0), 0U) << lines.front();
            EXPECT_NE(lines.front().find(" wrong values of round "), std::string::npos) << lines.front();
        }
    }

    /// Tests run in parallel.
    std::filesystem::path path_ = testing::TempDir() + "gasloc_known_bugs_" +
                                  testing::UnitTest::GetInstance()->current_test_info()->name() +
                                  ".safetensors";
};

TEST_F(GaslocMistakesTest, OfARunThatIsRightNoneIsNamed) {
    record_plain(SeededBug::none);
    verify::VerifyOptions options;
    options.level = verify::Level::rel();
    const verify::TraceVerdict verdict = verify_trace(path_, options);
    EXPECT_EQ(verdict.status, verify::Status::passed) << text_report(verdict);
    EXPECT_TRUE(diagnosis(verify::Level::rel()).empty());
    for (const std::string& line : diagnosis(verify::Level::exact()))
        EXPECT_NE(line.find("only rounding differs; try --level rel"), std::string::npos) << line;
}

TEST_F(GaslocMistakesTest, EachIsNamed) {
    expect_named(SeededBug::sum,
                 "the outer step adds the sum of the workers' drifts in place of their mean");
    expect_named(SeededBug::uphill, "the outer step goes uphill: the drift has the wrong sign");
    expect_named(SeededBug::uphill_average,
                 "the outer step goes uphill: the averaged drift has the wrong sign");
    expect_named(SeededBug::plain_momentum,
                 "the outer momentum is not Nesterov's: the last move is added, without this round's");
    expect_named(SeededBug::no_momentum, "there is no outer momentum");
    expect_named(SeededBug::no_pull,
                 "no worker is pulled towards its neighbours: the average is never taken over");
    expect_named(SeededBug::not_taken_over,
                 "the outer step is not taken over: each worker goes on from its own inner steps");
}

TEST_F(GaslocMistakesTest, WhatDoesTheSameIsSaid) {
    expect_named(SeededBug::no_momentum,
                 "the outer momentum is not Nesterov's: the last move is added, without this round's, or "
                 "there is no "
                 "outer momentum",
                 1);
}

TEST_F(GaslocMistakesTest, ASkippedRoundIsJudgedEvenIfItIsTheLast) {
    verify::VerifyOptions options;
    options.level = verify::Level::rel();
    record_plain(SeededBug::none, 3, 3);
    const verify::TraceVerdict right = verify_trace(path_, options);
    EXPECT_EQ(right.status, verify::Status::passed) << text_report(right);
    record_plain(SeededBug::drift_of_skipped, 3, 3);
    const verify::TraceVerdict wrong = verify_trace(path_, options);
    ASSERT_TRUE(wrong.first) << text_report(wrong);
    EXPECT_EQ(wrong.first->step, 3);
    EXPECT_EQ(wrong.first->rank, 1);
    EXPECT_EQ(wrong.first->result, "drifted");
    EXPECT_NE(wrong.first->note.find("skipped"), std::string::npos) << wrong.first->note;
}

TEST_F(GaslocMistakesTest, TheVerdictSpeaksOfRoundsAndWorkers) {
    record_plain(SeededBug::uphill);
    verify::VerifyOptions options;
    const verify::TraceVerdict verdict = verify_trace(path_, options);
    const std::string text = text_report(verdict);
    EXPECT_NE(text.find("first divergence: round 1, phase drift, drifted of worker 0, "), std::string::npos)
        << text;
    EXPECT_NE(text.find("each round begins at the recorded state before it"), std::string::npos) << text;
    EXPECT_EQ(text.find("step"), std::string::npos) << text;
    EXPECT_TRUE(json_report(verdict)["first_divergence"].contains("step"));
}

} // namespace
} // namespace truestep::verify::gasloc
