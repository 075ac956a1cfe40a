// Tests that a training resumed from a checkpoint gets the same bits, and that damage is refused.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/training/draw.hpp>
#include <truestep/training/run.hpp>

#include "checkpoint.hpp"
#include "multi_process_checkpoint.hpp"
#include "peers/links.hpp"

namespace truestep::training {
namespace {

using testing::HasSubstr;

class TrainingCheckpoint : public testing::Test {
  protected:
    TrainingCheckpoint() : folder_(testing::TempDir() + "training_checkpoint_" + std::to_string(getpid())) {
        text_ = {"text", 9, {}, {}, {}};
        for (std::size_t i = 0; i < 2000; ++i)
            (i < 1800 ? text_.learned : text_.measured)
                .push_back(static_cast<std::uint8_t>(drawn({5, i / 3}) % 9));
        plan_.shape = {9, 8, 16, 1, 2};
        plan_.ranks = 3;
        plan_.steps = 24;
        plan_.batch = 2;
        plan_.warm_up = 4;
        plan_.measure_every = 5;
        plan_.checkpoint_every = 6;
        kept_ = plan_;
        kept_.checkpoints = folder_;
    }
    ~TrainingCheckpoint() override { std::filesystem::remove_all(folder_); }

    /// Ends the run in the middle, as if its process were killed.
    void interrupt(const std::string& optimizer, std::size_t at) const {
        const auto kill = [&](std::size_t step, double) {
            if (step == at)
                throw Error("killed");
        };
        EXPECT_THROW(static_cast<void>(train(text_, kept_, optimizer, 3, kill)), Error);
    }

    [[nodiscard]] std::string refusal(const Plan& plan, const Text& text,
                                      const std::string& optimizer) const {
        try {
            static_cast<void>(train(text, plan, optimizer, 3));
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    }

    std::filesystem::path folder_;
    Text text_;
    Plan plan_;
    Plan kept_;
};

void expect_same(const Curve& found, const Curve& expected) {
    ASSERT_EQ(found.points.size(), expected.points.size()) << expected.optimizer;
    for (std::size_t i = 0; i < found.points.size(); ++i) {
        EXPECT_EQ(found.points[i].step, expected.points[i].step) << expected.optimizer;
        EXPECT_EQ(found.points[i].loss, expected.points[i].loss) << expected.optimizer << ", point " << i;
        EXPECT_EQ(found.points[i].bytes, expected.points[i].bytes) << expected.optimizer << ", point " << i;
    }
}

TEST_F(TrainingCheckpoint, GoesOnToTheSameBits) {
    for (const char* optimizer : {"adams", "adamw", "scape:0.1", "diloco:4", "gasloc:4", "dense-bf16",
                                  "dense-bf16-all", "topk-indices:0.1", "ok-topk:0.1", "unsharded:0.1"}) {
        const Curve whole = train(text_, plan_, optimizer, 3);
        interrupt(optimizer, 15);
        std::size_t first = 0;
        const Curve resumed = train(text_, kept_, optimizer, 3,
                                    [&](std::size_t step, double) { first = first == 0 ? step : first; });
        EXPECT_EQ(first, 13U) << optimizer; // 12 is the last end of a round in which one was due
        expect_same(resumed, whole);
        // A finished run is not repeated.
        expect_same(train(text_, kept_, optimizer, 3,
                          [](std::size_t step, double) { ADD_FAILURE() << "step " << step; }),
                    whole);
    }
}

TEST_F(TrainingCheckpoint, HasWhatStandsBetweenStages) {
    plan_.shape.layers = 2;
    plan_.stages = 2;
    kept_.shape = plan_.shape;
    kept_.stages = 2;
    for (const char* optimizer :
         {"adams", "adams+mapl:4", "adams+free:4", "adams+fixed:4", "scape:0.1+mapl:2:0.3"}) {
        const Curve whole = train(text_, plan_, optimizer, 3);
        interrupt(optimizer, 15);
        std::size_t first = 0;
        const Curve resumed = train(text_, kept_, optimizer, 3,
                                    [&](std::size_t step, double) { first = first == 0 ? step : first; });
        EXPECT_EQ(first, 13U) << optimizer;
        expect_same(resumed, whole);
    }
}

TEST_F(TrainingCheckpoint, OfAnotherRunIsRefused) {
    interrupt("scape:0.1", 7);
    Plan longer = kept_;
    longer.steps = 48;
    EXPECT_THAT(refusal(longer, text_, "scape:0.1"), HasSubstr("steps is 48 here and 24 there"));
    Text other = text_;
    other.learned[17] ^= 1U;
    EXPECT_THAT(refusal(kept_, other, "scape:0.1"), HasSubstr("is of another run: text learned from is"));
    EXPECT_EQ(refusal(kept_, text_, "scape:0.1"), "");
}

TEST_F(TrainingCheckpoint, ThatIsDamagedIsRefused) {
    interrupt("dense", 7);
    const auto path = folder_ / "dense.seed-3.safetensors";
    std::ifstream in(path, std::ios::binary);
    const std::string good{std::istreambuf_iterator<char>(in), {}};
    ASSERT_GT(good.size(), 1000U);
    // A changed header byte could be in an unused name, so this changes bytes of values and of the
    // run.
    for (const std::size_t at :
         {good.find("learning_rate"), good.size() - 1, good.size() / 2, good.size() - 5000}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 1);
        std::ofstream(path, std::ios::binary) << bad;
        EXPECT_NE(refusal(kept_, text_, "dense"), "") << at;
    }
    std::ofstream(path, std::ios::binary) << good.substr(0, good.size() - 1);
    EXPECT_NE(refusal(kept_, text_, "dense"), "");
    std::ofstream(path, std::ios::binary) << good;
    EXPECT_EQ(refusal(kept_, text_, "dense"), "");
}

/// A rank's state with its own sizes.
peers::State some_state(std::size_t rank) {
    peers::State state;
    state.vectors["parameters"] = std::vector<float>(5 + rank, 0.5F * static_cast<float>(rank));
    state.vectors["nothing"] = {};
    state.words["steps"] = {rank, 7};
    return state;
}

TEST_F(TrainingCheckpoint, OfProcessesComesToTheFirstWhole) {
    peers::run_linked(3, [](const peers::Links& links) {
        const auto rank = static_cast<std::size_t>(links.all.rank());
        Checkpoint kept{0, {}, std::vector<std::uint64_t>(3), std::vector<peers::State>(3)};
        kept.ranks[rank] = some_state(rank);
        kept.sent[rank] = 100 + rank;
        bring_to_first(kept, links.all);
        if (rank != 0)
            return;
        for (std::size_t other = 0; other < 3; ++other) {
            EXPECT_EQ(kept.ranks[other], some_state(other));
            EXPECT_EQ(kept.sent[other], 100 + other);
        }
    });
}

TEST_F(TrainingCheckpoint, OfProcessesIsTheSameForAllOrRefusedByAll) {
    const nlohmann::ordered_json identity{{"seed", 3}};
    // One name in several folders: ranks on machines without a shared folder.
    const auto in = [&](const char* folder) {
        std::filesystem::create_directories(folder_ / folder);
        return folder_ / folder / "run.safetensors";
    };
    const auto there = in("there");
    save(there, identity, {12, {}, {1, 2, 3}, {some_state(0), some_state(1), some_state(2)}});
    const auto found = [&](const std::vector<std::filesystem::path>& paths) {
        std::vector<SharedCheckpoint> all(3);
        peers::run_linked(3, [&](const peers::Links& links) {
            const auto rank = static_cast<std::size_t>(links.all.rank());
            all[rank] = load_together(paths[rank], identity, links.all);
        });
        EXPECT_EQ(all[0].refused, all[1].refused);
        EXPECT_EQ(all[0].refused, all[2].refused);
        return all;
    };
    for (const SharedCheckpoint& one : found({there, there, there})) {
        EXPECT_EQ(one.refused, "");
        ASSERT_TRUE(one.checkpoint);
        EXPECT_EQ(one.checkpoint->ranks[2], some_state(2));
    }
    const auto none = in("none");
    EXPECT_FALSE(found({none, none, none})[1].checkpoint);
    EXPECT_EQ(found({none, none, none})[1].refused, "");
    EXPECT_THAT(
        found({there, there, none})[1].refused,
        HasSubstr("run.safetensors: rank 2 finds another checkpoint, none, than rank 0, that of step 12"));
    const auto other = in("other");
    save(other, identity, {24, {}, {1, 2, 3}, {some_state(0), some_state(1), some_state(2)}});
    EXPECT_THAT(found({there, other, there})[2].refused, HasSubstr("rank 1 finds another checkpoint"));
    const auto left_over = in("left_over"); // of the same step, by another run
    save(left_over, identity, {12, {}, {1, 2, 3}, {some_state(0), some_state(1), some_state(1)}});
    EXPECT_THAT(
        found({there, there, left_over})[0].refused,
        HasSubstr("rank 2 finds another checkpoint, that of step 12, than rank 0, of the same step"));
    const auto damaged = in("damaged");
    std::ofstream(damaged) << "damaged";
    EXPECT_THAT(found({there, damaged, there})[0].refused, HasSubstr("damaged/run.safetensors"));
}

/// All steps of a rank. If `at` is one of them, another peer takes the later steps, from the first
/// one's state there.
std::vector<float> stepped(const peers::Kind& kind, const peers::Links& links, int at) {
    constexpr std::size_t d = 1037;
    const std::vector<float> start(d, 1.0F);
    const peers::Setting setting{d, 0.05, {}, 3};
    auto peer = peers::make_peer(kind.name, setting, links, start);
    for (int step = 1; step <= 45; ++step) {
        std::vector<float> gradient(d);
        for (std::size_t i = 0; i < d; ++i)
            gradient[i] = static_cast<float>(drawn({static_cast<std::uint64_t>(links.all.rank()),
                                                    static_cast<std::uint64_t>(step), i}) %
                                             2001) /
                              1000.0F -
                          1.0F;
        peer->step(gradient, 1e-2);
        if (step != at)
            continue;
        const peers::State told = peer->state();
        peer = peers::make_peer(kind.name, setting, links, std::vector<float>(d, 7.0F));
        peer->restore(told);
        EXPECT_EQ(peer->state(), told) << kind.name;
    }
    peer->finish();
    return {peer->parameters().begin(), peer->parameters().end()};
}

// At ends of rounds; the last one is where step 33 reuses Ok-Topk's thresholds.
TEST(PeerState, IsAllThatTheNextStepsDependOn) {
    for (const peers::Kind& kind : peers::kinds())
        peers::run_linked(3, [&](const peers::Links& links) {
            const std::vector<float> whole = stepped(kind, links, 0);
            for (const int at : {3, 18, 36})
                EXPECT_EQ(stepped(kind, links, at), whole) << kind.name << ", step " << at;
        });
}

TEST(PeerState, ThatLacksSomethingIsRefused) {
    const std::vector<float> start(64, 1.0F);
    for (const peers::Kind& kind : peers::kinds())
        peers::run_linked(2, [&](const peers::Links& links) {
            const auto peer = peers::make_peer(kind.name, {64}, links, start);
            const peers::State state = peer->state();
            for (const auto& [name, values] : state.vectors) {
                peers::State less = state;
                less.vectors.erase(name);
                EXPECT_THROW(peer->restore(less), Error) << kind.name << ", without " << name;
            }
            for (const auto& [name, words] : state.words) {
                peers::State less = state;
                less.words.erase(name);
                EXPECT_THROW(peer->restore(less), Error) << kind.name << ", without " << name;
            }
            peer->restore(state);
            EXPECT_EQ(peer->state(), state) << kind.name;
        });
}

} // namespace
} // namespace truestep::training
