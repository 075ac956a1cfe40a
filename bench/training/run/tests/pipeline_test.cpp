// Compares boundaries between stages with ends that send messages.
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/distributed/counting_peers.hpp>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/distributed/mapl/ends.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/training/draw.hpp>

#include "optimizer.hpp"
#include "peers/links.hpp"
#include "pipeline.hpp"
#include "pipeline_support.hpp"

namespace truestep::training {
namespace {

using distributed::mapl::Floats;
using problem::mapl::Side;
using testing::ElementsAre;
using testing::HasSubstr;

Plan small() {
    Plan plan;
    plan.shape = {7, 6, 8, 2, 2};
    plan.stages = 2;
    plan.ranks = 1;
    return plan;
}

constexpr std::size_t tokens = 12;
constexpr double rate = 0.3;

/// The results of one boundary in three consecutive steps.
struct Made {
    std::vector<Floats> all;
    std::uint64_t bytes = 0;
};

/// Activations, gradients and tables differ in each step.
Floats activations(std::size_t step) {
    return values(100 + step, tokens * 8);
}
Floats gradients(std::size_t step) {
    return values(200 + step, tokens * 8);
}
Floats tables(std::size_t step, std::size_t rank) {
    return values(300 + step, 2 * 7 * rank);
}

Made by_passes(const Compression& compression) {
    Made made;
    peers::run_linked(1, [&](const peers::Links& links) {
        Pipeline pipeline(small(), compression, seed, links);
        for (std::size_t step = 0; step < 3; ++step) {
            const Floats anchors = tables(step, pipeline.rank());
            Floats anchor_gradients(anchors.size(), 1.0F); // which is not to be added to
            pipeline.begin(symbols(tokens, 7), anchors, anchor_gradients);
            Floats x = activations(step);
            pipeline.forward(0, x.data());
            made.all.push_back(x);
            Floats g = gradients(step);
            pipeline.backward(0, g.data());
            made.all.push_back(g);
            made.all.push_back(anchor_gradients);
            pipeline.end_step(rate);
            const auto a = pipeline.subspace(0);
            made.all.emplace_back(a.begin(), a.end());
        }
        made.bytes = pipeline.sent();
    });
    return made;
}

Made by_messages(const Compression& compression) {
    const problem::mapl::Settings settings = boundary_settings(small().shape, compression, 0, seed);
    const Floats start = problem::mapl::first_subspace(settings.width, settings.rank, settings.seed);
    const auto rank = static_cast<std::size_t>(settings.rank);
    const std::vector<std::uint8_t> drawn_symbols = symbols(tokens, 7);
    const std::vector<distributed::mapl::Id> ids(drawn_symbols.begin(), drawn_symbols.end());
    const auto table = [&](std::size_t step, Side side) {
        const Floats both = tables(step, rank);
        const auto half = static_cast<std::ptrdiff_t>(both.size() / 2);
        return side == Side::sender ? Floats(both.begin(), both.begin() + half)
                                    : Floats(both.begin() + half, both.end());
    };
    std::vector<std::vector<Floats>> seen(2);
    std::vector<std::uint64_t> bytes(2);
    distributed::run_peers(2, [&](distributed::Peers& inner) {
        distributed::CountingPeers peers(inner);
        const bool sends = peers.rank() == 0;
        auto& mine = seen[static_cast<std::size_t>(peers.rank())];
        const Side side = sends ? Side::sender : Side::receiver;
        distributed::mapl::EndState state =
            distributed::mapl::first_state(settings, side, start, table(0, side));
        const auto each_step = [&](auto& end, const auto& step_of) {
            peers.reset(); // the agreement
            for (std::size_t step = 0; step < 3; ++step) {
                end.set_anchor(table(step, side));
                step_of(step);
            }
            mine.push_back(end.subspace()); // the receiver waits for its last one
        };
        if (sends) {
            distributed::mapl::Sender sender(settings, std::move(state), peers, 1);
            each_step(sender, [&](std::size_t step) {
                sender.forward(0, activations(step), ids);
                mine.push_back(sender.backward(0));
                EXPECT_TRUE(sender.end_step(compression.rate * rate));
                mine.push_back(sender.anchor_gradient());
                mine.push_back(sender.subspace());
            });
        } else {
            distributed::mapl::Receiver receiver(settings, std::move(state), peers, 0);
            each_step(receiver, [&](std::size_t step) {
                mine.push_back(receiver.forward(0, tokens).activations);
                receiver.backward(0, gradients(step));
                receiver.end_step();
                mine.push_back(receiver.anchor_gradient());
            });
        }
        for (const std::uint64_t kind : peers.bytes())
            bytes[static_cast<std::size_t>(peers.rank())] += kind;
    });
    EXPECT_EQ(seen[0].back(), seen[1].back());
    Made made{{}, bytes[0] + bytes[1]};
    for (std::size_t step = 0; step < 3; ++step) {
        Floats of_tables = seen[0][3 * step + 1];
        const Floats& receivers = seen[1][2 * step + 1];
        of_tables.insert(of_tables.end(), receivers.begin(), receivers.end());
        for (const Floats& one : {seen[1][2 * step], seen[0][3 * step], of_tables, seen[0][3 * step + 2]})
            made.all.push_back(one);
    }
    return made;
}

TEST(Pipeline, HasTheBitsAndTheBytesOfEndsThatSendMessages) {
    for (const std::size_t times : {1U, 2U, 4U}) {
        const Compression compression{Subspace::mapl, times, 0.1};
        const Made passes = by_passes(compression);
        const Made messages = by_messages(compression);
        ASSERT_EQ(passes.all.size(), messages.all.size());
        for (std::size_t i = 0; i < passes.all.size(); ++i)
            EXPECT_EQ(passes.all[i], messages.all[i])
                << times << " times, step " << i / 4 << ", part " << i % 4;
        EXPECT_EQ(passes.bytes, messages.bytes);
    }
}

TEST(Pipeline, LeavesTheManifoldOnlyWhereItIsFree) {
    const auto last = [](Subspace subspace) { return by_passes({subspace, 4, 0.1}).all.back(); };
    const Floats first =
        problem::mapl::first_subspace(8, 2, boundary_settings(small().shape, {.times = 4}, 0, seed).seed);
    EXPECT_EQ(last(Subspace::fixed), first);
    EXPECT_NE(last(Subspace::mapl), first);
    EXPECT_LE(problem::mapl::distance_to_manifold(last(Subspace::mapl), 2),
              problem::mapl::manifold_tolerance(8, 2));
    EXPECT_GT(problem::mapl::distance_to_manifold(last(Subspace::free), 2), 0.01);
    // An A that does not change is not sent, either.
    EXPECT_EQ(by_passes({Subspace::mapl, 4, 0.1}).bytes - by_passes({Subspace::fixed, 4, 0.1}).bytes,
              3U * 2 * 8 * 2 * sizeof(float));
}

// Section 22.1: A follows the mean over replicas, and is the same on all.
TEST(Pipeline, HasOneSubspaceOverAllRanks) {
    for (const Subspace subspace : {Subspace::mapl, Subspace::free}) {
        std::map<std::string, Floats> of;
        const auto step = [&](const peers::Links& links, bool apart, const std::string& name) {
            const auto own = apart ? static_cast<std::size_t>(links.all.rank()) : 0;
            Pipeline pipeline(small(), Compression{subspace, 4, 0.1}, seed, links);
            const Floats anchors = tables(0, pipeline.rank());
            Floats anchor_gradients(anchors.size());
            pipeline.begin(symbols(tokens, 7), anchors, anchor_gradients);
            Floats x = activations(own);
            pipeline.forward(0, x.data());
            Floats g = gradients(own);
            pipeline.backward(0, g.data());
            pipeline.end_step(rate);
            const auto a = pipeline.subspace(0);
            return std::pair(name + std::to_string(links.all.rank()), Floats(a.begin(), a.end()));
        };
        std::vector<std::pair<std::string, Floats>> made(5);
        peers::run_linked(2, [&](const peers::Links& links) {
            const auto rank = static_cast<std::size_t>(links.all.rank());
            made[rank] = step(links, true, "apart");
            made[2 + rank] = step(links, false, "alike");
        });
        peers::run_linked(1, [&](const peers::Links& links) { made[4] = step(links, false, "alone"); });
        for (const auto& [name, a] : made)
            of[name] = a;
        EXPECT_EQ(of.at("apart0"), of.at("apart1"));
        EXPECT_NE(of.at("apart0"), of.at("alone0"));
        EXPECT_EQ(of.at("alike0"), of.at("alone0")); // the mean of two that are alike
    }
}

TEST(Pipeline, IsCutIntoStagesAsEqualAsCanBe) {
    EXPECT_THAT(cuts(4, 4), ElementsAre(0, 1, 2));
    EXPECT_THAT(cuts(6, 4), ElementsAre(0, 2, 3));
    EXPECT_THAT(cuts(5, 2), ElementsAre(1));
    EXPECT_THAT(cuts(3, 1), ElementsAre());
}

std::string refusal(const std::string& optimizer, const Plan& plan) {
    try {
        static_cast<void>(optimizer_of(optimizer, plan));
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(Compression, SaysWhatIsWrongWithIt) {
    EXPECT_EQ(refusal("adams+mapl:4", small()), "");
    EXPECT_EQ(refusal("scape:0.1+free:8:0.01", small()), "");
    EXPECT_THAT(refusal("adams+mapple:4", small()),
                HasSubstr("behind + is no kind of boundary; it must be"));
    EXPECT_THAT(refusal("adams+mapl", small()), HasSubstr("is without a number of times"));
    EXPECT_THAT(refusal("adams+mapl:0", small()), HasSubstr("is without a whole number of times"));
    EXPECT_THAT(refusal("adams+mapl:2.5", small()), HasSubstr("is without a whole number of times"));
    EXPECT_THAT(refusal("adams+mapl:4:x", small()), HasSubstr("rate of A that is not above 0"));
    EXPECT_THAT(refusal("adams+fixed:4:1", small()), HasSubstr("is fixed, which has no rate"));
    EXPECT_THAT(refusal("adams+mapl:3", small()),
                HasSubstr("a width of 8 3 times less; give a number that divides it"));
    EXPECT_THAT(refusal("diloco:4+mapl:4", small()), HasSubstr("each rank has a model of its own"));
    EXPECT_THAT(refusal("space+mapl:4", small()), HasSubstr("there is no optimizer 'space'"));
    Plan plan = small();
    plan.learning_rate = 1;
    EXPECT_THAT(refusal("adams+mapl:4:1", plan), HasSubstr("0.52"));
    plan.stages = 1;
    EXPECT_THAT(refusal("adams+mapl:4", plan), HasSubstr("between stages, and there is one"));
}

} // namespace
} // namespace truestep::training
