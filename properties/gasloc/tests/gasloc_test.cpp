// Tests GASLoC's cases, graphs against a second computation, all properties, and level REL.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

#include <truestep/gate/search.hpp>
#include <truestep/gate/system.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/verify/gasloc/traces.hpp>

#include "by_hand.hpp"
#include "implementation.hpp"
#include "parts.hpp"
#include "planted/numbers.hpp"
#include "planted/planted.hpp"
#include "trial.hpp"
#include "workers.hpp"

namespace truestep::properties::gasloc {

gate::System gasloc_system();

namespace {

const gate::System& tested() {
    static const gate::System system = gasloc_system();
    return system;
}

const std::shared_ptr<const gate::Group>& threads() {
    static const auto group = gate::make_thread_group(std::chrono::seconds(5));
    return group;
}

std::optional<gate::Counterexample> counterexample(const gate::Implementation& implementation,
                                                   const std::string& property, int cases = 100) {
    gate::SearchOptions options;
    options.cases = cases;
    return gate::search(tested(), implementation, tested().property(property), options).counterexample;
}

TEST(Case, IsALineAndBack) {
    for (const char* line :
         {"law=pairs,workers=1,size=1,rounds=1", "law=explicit,inner=adamw,momentum=gossiped,bias=none,"
                                                 "data=wide,workers=3,size=0,rounds=4,steps=2,"
                                                 "uneven=1,skip=1,restart=2,to=5,late=3,threads=2,seed=7,"
                                                 "alpha=0.5,gamma=0.9,eta=2,lr=0.1,decay=0.1,"
                                                 "beta1=0.9,beta2=0.999,epsilon=1e-08"})
        EXPECT_EQ(spec().text(spec().parse(line)), line);
    for (const char* wrong : {"", "workers=2", "law=star", "law=ring,workers=0", "law=ring,size=-1",
                              "law=hypercube,workers=3", "law=ring,density=1", "law=ring,alpha=x"})
        EXPECT_THROW(static_cast<void>(spec().parse(wrong)), Error) << wrong;
}

// Compares the chapter's laws, worked out a second time, with those that the workers use.
TEST(ByHand, GraphsAreThoseOfTheLaws) {
    for (const Law law : all_laws)
        for (int workers = 1; workers <= 33; ++workers)
            for (Index round = 1; round <= 6; ++round) {
                if (law == Law::given || (law == Law::hypercube && (workers & (workers - 1)) != 0))
                    continue;
                Settings settings;
                settings.law = law;
                settings.seed = static_cast<std::uint64_t>(workers);
                EXPECT_EQ(by_hand::graph_of(settings, round, workers),
                          problem::gasloc::graph_of(law, settings.seed, round, workers))
                    << name(law) << " " << workers << " " << round;
            }
}

int cases_of_a_property() {
    const char* const asked = std::getenv("TRUESTEP_PROPERTY_CASES"); // fewer under sanitizers
    return asked == nullptr ? 60 : std::atoi(asked);
}

TEST(Properties, HoldOfTheWorkers) {
    const auto implementations = tested().implementations(threads());
    for (const auto& implementation : implementations) {
        if (!implementation->unavailable().empty())
            continue; // a device is missing
        for (const gate::Property& property : tested().properties)
            if (const auto found = counterexample(*implementation, property.name, cases_of_a_property()))
                ADD_FAILURE() << implementation->name() << " " << property.name << "\n"
                              << gate::failure_text(*found);
    }
}

TEST(Properties, EqualTheReferenceWhereManyRoundsRunFree) {
    const auto implementations = tested().implementations(threads());
    for (const char* line : {"law=two_peers,inner=adamw,data=normal,workers=4,size=3,rounds=500,steps=2,"
                             "uneven=1,gamma=0.5,eta=0.7,"
                             "alpha=0.5",
                             "law=pairs,inner=adams,momentum=gossiped,data=normal,workers=5,size=3,rounds="
                             "500,steps=1,gamma=0.25"}) {
        Trial trial(*implementations.front(), spec().parse(line));
        trial.lives = trial.play(trial.scenario);
        trial.same(expected_lives(trial.scenario), trial.lives, "the reference's");
        EXPECT_FALSE(trial.judged.finding) << trial.judged.finding->message();
        EXPECT_GT(trial.judged.counts.compared, 1000);
    }
}

/// Shows another state than its own.
class Changed final : public RankUnderTest {
  public:
    using Change = std::function<void(State&)>;
    Changed(std::unique_ptr<RankUnderTest> of, Change change)
        : of_(std::move(of)), change_(std::move(change)) {}
    bool step(std::span<const float> gradient, double learning_rate) override {
        return of_->step(gradient, learning_rate);
    }
    bool round() override { return of_->round(); }
    State state() const override {
        State state = of_->state();
        change_(state);
        return state;
    }
    void save(const std::filesystem::path& folder, int rank, int workers) const override {
        of_->save(folder, rank, workers);
    }

  private:
    std::unique_ptr<RankUnderTest> of_;
    Change change_;
};

TEST(Properties, RelAllowsARoundingAndNoMore) {
    const RankFactory whole = workers();
    const auto off_by = [&](float off, verify::LevelKind level) {
        RankFactory subjects = whole;
        subjects.start = [&whole, off](const Settings& settings, std::span<const float> parameters,
                                       distributed::Peers& peers, int count) {
            return std::make_unique<Changed>(whole.start(settings, parameters, peers, count),
                                             [off](State& state) {
                                                 for (float& value : state.theta)
                                                     value *= 1.0F + off;
                                             });
        };
        return Workers("rounded", subjects, threads(), {.level = level});
    };
    const char* const line =
        "law=ring,inner=adamw,data=normal,workers=3,size=40,rounds=1,steps=2,gamma=0.5";
    const auto finding = [&](const Implementation& candidate) {
        Trial trial(candidate, spec().parse(line));
        trial.lives = trial.play(trial.scenario);
        trial.as_the_reference(trial.lives);
        return trial.judged.finding != nullptr;
    };
    EXPECT_FALSE(finding(off_by(0x1p-23F, verify::LevelKind::rel)));
    EXPECT_TRUE(finding(off_by(0x1p-23F, verify::LevelKind::exact)));
    EXPECT_TRUE(finding(off_by(0x1p-12F, verify::LevelKind::rel)));
}

// Each round begins with the state that the worker has shown, including its counts: nothing else would
// notice.
TEST(Properties, RelLooksAtCounts) {
    const RankFactory whole = workers();
    RankFactory subjects = whole;
    subjects.restart = [&whole](const Settings& settings, const std::filesystem::path& folder,
                                distributed::Peers& peers, int count) {
        return std::make_unique<Changed>(whole.restart(settings, folder, peers, count),
                                         [](State& state) { state.s += 1; });
    };
    const Workers miscounts("miscounts", subjects, threads(), {.level = verify::LevelKind::rel});
    EXPECT_TRUE(counterexample(miscounts, "restart.other", 20));
    subjects = whole;
    subjects.start = [&whole](const Settings& settings, std::span<const float> parameters,
                              distributed::Peers& peers, int count) {
        return std::make_unique<Changed>(whole.start(settings, parameters, peers, count),
                                         [](State& state) { state.rounds += 1; });
    };
    const Workers ahead("ahead", subjects, threads(), {.level = verify::LevelKind::rel});
    EXPECT_TRUE(counterexample(ahead, "reference", 20));
    const Workers honest("honest", whole, threads(), {.level = verify::LevelKind::rel});
    EXPECT_FALSE(counterexample(honest, "restart.other", 20));
}

// `truestep verify` judges the trace of a failure as the gate judged the run.
TEST(Properties, AFailureIsKeptAsATrace) {
    const auto found = counterexample(*planted(drift_sign, threads()), "reference");
    ASSERT_TRUE(found);
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("gasloc-" + std::to_string(getpid()) + ".safetensors");
    ASSERT_TRUE(found->finding->save(path, "a test"));
    const verify::TraceVerdict verdict = verify::gasloc::verify_trace(path, {});
    std::filesystem::remove(path);
    EXPECT_EQ(verdict.status, verify::Status::failed);
    ASSERT_TRUE(verdict.first);
    EXPECT_EQ(verdict.first->phase, "drift");
    ASSERT_TRUE(found->finding->drawing());
    EXPECT_FALSE(gate::drawing_json(*found->finding->drawing()).is_null());
}

} // namespace
} // namespace truestep::properties::gasloc
