// Tests that clean implementations hold all properties, and that each property catches a bug.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include <truestep/gate/results.hpp>
#include <truestep/gate/search.hpp>
#include <truestep/problem/error.hpp>

#include "devices.hpp"
#include "planted/plain.hpp"
#include "planted/plain_checkpoint.hpp"
#include "planted/planted.hpp"

namespace truestep::properties::dense {

gate::System dense_system();

namespace {

const gate::System& tested() {
    static const gate::System system = dense_system();
    return system;
}

const std::shared_ptr<const gate::Group>& threads() {
    static const auto group = gate::make_thread_group(std::chrono::seconds(5));
    return group;
}

int cases_of_a_property() {
    const char* const asked = std::getenv("TRUESTEP_PROPERTY_CASES"); // fewer under sanitizers
    return asked == nullptr ? 60 : std::atoi(asked);
}

std::optional<gate::Counterexample> counterexample(const gate::Implementation& implementation,
                                                   const std::string& property, int cases) {
    gate::SearchOptions options;
    options.cases = cases;
    return gate::search(tested(), implementation, tested().property(property), options).counterexample;
}

TEST(Case, IsALineAndBack) {
    for (const char* line :
         {"rule=adamw,tensors=m1x1,workers=1,steps=1,seed=1",
          "rule=muon,tensors=m3x4/v5/e2x3/v1x2x3,workers=3,steps=4,seed=9,data=normal,micro=2,"
          "order=tree,clip=0.125,copies=bf16,groups=mixed,scale=match_rms_adamw,refused=2,"
          "restart=1,to=2,threads=3"})
        EXPECT_EQ(spec().text(spec().parse(line)), line);
    for (const char* wrong : {"", "workers=2", "rule=lion", "rule=sgd,tensors=x3", "rule=sgd,tensors=m3",
                              "rule=sgd,tensors=m0x2", "rule=sgd,workers=0", "rule=adam,beta1=1",
                              "rule=sgd,workers=2,micro=3,order=tree", "rule=sgd,restart=1"})
        EXPECT_THROW(static_cast<void>(spec().parse(wrong)), Error) << wrong;
}

TEST(Properties, HoldOfAllImplementations) {
    for (const auto& implementation : tested().implementations(threads())) {
        if (!implementation->unavailable().empty() || !implementation->runs_on().empty())
            continue;
        // Blocks on the host are slow.
        const int cases = cases_of_a_property() / (implementation->name() == "cuda-blocks" ? 6 : 1);
        for (const gate::Property& property : tested().properties)
            if (const auto found = counterexample(*implementation, property.name, cases))
                ADD_FAILURE() << implementation->name() << " " << property.name << "\n"
                              << gate::failure_text(*found);
    }
}

TEST(Plain, RefusesACoordinateOfALargerModel) {
    const auto folder = std::filesystem::temp_directory_path() / "dense-plain-checkpoint";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "rank-0") << "1 0 0\n" << settings_of(problem_of(Case{}, 1)) << "\n1 0 0 0\n";
    EXPECT_THROW(static_cast<void>(load_plain(none, folder, problem_of(Case{}, 1), {0})), Error);
    std::filesystem::remove_all(folder);
}

// Every property can fail; `truestep planted dense` tries all known bugs with all properties.
TEST(Properties, EachCatchesAKnownBug) {
    const std::pair<const char*, Bug> catches[]{{"replicas", own_parameters_stale},
                                                {"shards", cut_matrix},
                                                {"world", ranks_order_in_tree},
                                                {"micro_batches", once_a_micro_batch},
                                                {"traffic", copies_travel_whole},
                                                {"rerun", thread_share_lost},
                                                {"sgd", sum_for_mean},
                                                {"first_step", plain_sgd},
                                                {"coupled", default_decay},
                                                {"dealing", dealt_by_extents},
                                                {"groups", first_groups_rate},
                                                {"clip", clipped_by_own_norm},
                                                {"orthogonal", all_dealt_to_adamw},
                                                {"masters", masters_from_copies},
                                                {"refused", refused_moves_moments},
                                                {"restart.same", count_lost},
                                                {"restart.other", owners_of_before},
                                                {"settings", settings_not_compared},
                                                {"settings", parameters_not_compared},
                                                {"refusal", group_without_tensors_allowed},
                                                {"fault", goes_on_alone},
                                                {"halt", does_not_halt},
                                                {"turned", all_dealt_to_adamw},
                                                {"group_order", first_groups_decay},
                                                {"matters", accumulation_ignored},
                                                {"matters", scale_forgotten},
                                                {"tried_again", rates_not_compared},
                                                {"tried_again", refuses_alone},
                                                {"restart.strange", runs_mixed},
                                                {"restart.settings", checkpoints_settings_ignored},
                                                {"restart.stale", steps_not_compared},
                                                {"orthogonal", iteration_in_fp32},
                                                {"reference", nesterov_forgotten}};
    for (const auto& [property, bug] : catches)
        EXPECT_TRUE(counterexample(*planted(bug, threads()), property, 300)) << property;
    const auto count = static_cast<int>(known_bugs().size());
    EXPECT_EQ(count, number_of_bugs - 1);
    EXPECT_THROW(static_cast<void>(planted(count + 1, threads())), Error);
    for (std::size_t i = 0; i < known_bugs().size(); ++i)
        EXPECT_EQ(known_bugs()[i].number, static_cast<int>(i) + 1);
}

} // namespace
} // namespace truestep::properties::dense
