// Tests MAPL's cases, schedules and replicas, its properties, and that each known bug is caught.
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/gate/search.hpp>
#include <truestep/gate/system.hpp>
#include <truestep/problem/error.hpp>

#include "family.hpp"
#include "implementation.hpp"
#include "planted/plain.hpp"
#include "planted/planted.hpp"

namespace truestep::properties::mapl {

gate::System mapl_system();

namespace {

const gate::System& tested() {
    static const gate::System system = mapl_system();
    return system;
}

const std::shared_ptr<const gate::Group>& threads() {
    static const auto group = gate::make_thread_group(std::chrono::seconds(20));
    return group;
}

std::optional<gate::Counterexample> counterexample(const gate::Implementation& implementation,
                                                   const std::string& property, int cases = 60) {
    gate::SearchOptions options;
    options.cases = cases;
    options.most_evaluations = 20;
    return gate::search(tested(), implementation, tested().property(property), options).counterexample;
}

TEST(MaplCase, IsALineAndBack) {
    const std::string line = "rank=2,width=5,workers=3,replicas=2,tokens=4,vocabulary=257,micro=2,steps=3,"
                             "restart=1,seed=7,codewords=6,groups=2,rounds=2,subsets=3,anchors=two,order="
                             "momentum_first,schedule=1f1b,data=normal,payload=bf16,trainer=scape";
    EXPECT_EQ(spec().text(spec().parse(line)), line);
    EXPECT_EQ(spec().parse("rank=3").width, 3);
    EXPECT_EQ(spec().parse("rank=3,codewords=4,groups=2,subsets=3,rounds=2").groups,
              1); // what does not fit
    EXPECT_EQ(spec().parse("rank=3,codewords=4,groups=2,subsets=3,rounds=2").subsets, 1);
    EXPECT_EQ(spec().parse("rank=3,rounds=2").rounds, 1);
    EXPECT_EQ(spec().parse("rank=3,replicas=2").trainer, Trainer::adams);
    EXPECT_EQ(spec().parse("rank=3").trainer, Trainer::none);
    for (const char* wrong :
         {"", "width=2", "rank=0", "rank=2,width=1", "rank=1,workers=1", "rank=1,law=ring",
          "rank=1,anchors=both", "rank=1,data=odd", "rank=1,payload=e5m2", "rank=1,codewords=65537",
          "rank=1,rounds=0", "rank=1,replicas=0", "rank=1,trainer=sgd", "rank=x", "rank=1,tokens"})
        EXPECT_THROW(static_cast<void>(spec().parse(wrong)), Error) << wrong;
}

TEST(MaplSchedules, EachMicroBatchGoesOnceAndComesBackOnce) {
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_forward_one})
        for (int stage = 0; stage < 4; ++stage) {
            int under_way = 0;
            int most = 0;
            int all = 0;
            for (const Turn& turn : turns(schedule, stage, 4, 6)) {
                under_way += turn.forward ? 1 : -1;
                most = std::max(most, under_way);
                ++all;
            }
            EXPECT_EQ(under_way, 0);
            EXPECT_EQ(all, 12);
            // 1F1B never has more under way than there are stages behind.
            EXPECT_EQ(most, schedule == Schedule::gpipe ? 6 : 4 - stage);
        }
}

TEST(MaplReplicas, RanksAreReplicaAfterReplica) {
    const Scenario scenario = scenario_of(spec().parse("rank=1,workers=3,replicas=2"));
    EXPECT_EQ(scenario.run.ranks(), 6);
    EXPECT_EQ(scenario.ranks_of(1), (std::vector<int>{1, 4}));
    EXPECT_EQ(scenario.stage_of(5), 2);
    EXPECT_EQ(scenario.replica_of(5), 1);
    EXPECT_EQ(scenario.replica_of(2), 0);
    EXPECT_EQ(tested().most_workers("rank=1,workers=3,replicas=2"), 6);
}

// The rows of the gate's table; no row asks for what would be another.
TEST(MaplReplicas, AreRowsOfTheMatrix) {
    const auto host = tested().implementations(threads()).front();
    const auto several = [&](const gate::Overrides& overrides) {
        int count = 0;
        for (const gate::Overrides& row : tested().rows(*host, overrides)) {
            const bool one = row.at("replicas").front() == "1";
            EXPECT_EQ(one && !overrides.contains("trainer"), row.at("trainer").front() == "none");
            count += one ? 0 : 1;
        }
        return count;
    };
    EXPECT_EQ(several({}), 2 * 4 * 2); // numbers of stages, anchors, trainers
    EXPECT_EQ(several({{"replicas", {"1"}}}), 0);
    EXPECT_EQ(several({{"replicas", {"3"}}, {"workers", {"4"}}, {"anchors", {"two"}}}), 2);
    EXPECT_EQ(several({{"trainer", {"scape"}}}), 2 * 4);
}

TEST(MaplProperties, HoldOfAllImplementationsThatCanBeRun) {
    for (const auto& implementation : tested().implementations(threads()))
        for (const gate::Property& property : tested().properties) {
            if (!implementation->unavailable().empty())
                continue;
            const auto found = counterexample(*implementation, property.name, 40);
            EXPECT_FALSE(found) << implementation->name() << ", " << property.name << ": " << found->line
                                << ": " << found->finding->message();
        }
}

TEST(MaplProperties, FaultsCatchesIdsThatNobodyChecks) {
    const GroupImplementation taker("taker", plain_ends(nothing), threads(),
                                    {.names_differences = false, .checks_messages = true});
    gate::SearchOptions options;
    options.cases = 60;
    options.overrides = {{"anchors", {"none"}}, {"codewords", {"0"}}}; // else it reads behind its tables
    const auto found = gate::search(tested(), taker, tested().property("faults"), options).counterexample;
    ASSERT_TRUE(found);
    EXPECT_NE(std::string(found->finding->message()).find(" sent the id "), std::string::npos)
        << found->finding->message();
}

// One property that catches each bug; `truestep planted mapl` prints the first that does.
TEST(MaplProperties, EachCatchesItsMistakes) {
    const std::vector<std::string> catches{
        "gradients", "gradients", "gradients", "replicas", "replicas", "reference", "restart", "manifold",
        "reference", "turned", "manifold", "reference", "reference", "gradients", "spanned", "gradients",
        "gradients", "ids", "ids", "gradients", "gradients", "restart", "traffic", "refusals", "starts",
        "starts", "lossless", "gradients", "gradients", "reference", "traffic", "reference", "reference",
        "quantization", "reference", "restart", "reference", "quantization", "quantization", "reference",
        "reference", "reference", "reference", "starts", "restart", "faults", "composed", "composed",
        "composed", "composed", "composed", "composed", "traffic", "starts", "principal", "quantization",
        "restart", "projector",
        // The bugs of device code, in the host's form and then on a device.
        "principal", "manifold", "manifold", "refusals", "gradients", "principal", "manifold", "manifold",
        "refusals", "gradients", "orders", "overflow", "overflow", "overflow", "starts", "turned",
        "starts.replicas", "quantization", "restart.settings"};
    ASSERT_EQ(catches.size(), known_bugs().size());
    for (const gate::KnownBug& known_bug : known_bugs()) {
        const std::string& property = catches[static_cast<std::size_t>(known_bug.number - 1)];
        const auto implementation = planted(known_bug.number, threads());
        if (!implementation->unavailable().empty())
            continue;
        EXPECT_TRUE(counterexample(*implementation, property))
            << known_bug.number << " " << known_bug.name << " by " << property;
    }
    EXPECT_THROW(static_cast<void>(planted(static_cast<int>(known_bugs().size()) + 1, threads())), Error);
}

} // namespace
} // namespace truestep::properties::mapl
