// Micro-batches and buckets: the same bits as one step, and the errors for wrong ones.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/scape/buckets.hpp>
#include <truestep/optimizer.hpp>

#include "sharded_support.hpp"

namespace truestep::distributed::scape {
namespace {

using problem::PartitionRule;

/// Compares bits: a zero has a sign.
bool same_bits(const std::vector<float>& one, const std::vector<float>& two) {
    return std::ranges::equal(one, two, {}, std::bit_cast<std::uint32_t, float>,
                              std::bit_cast<std::uint32_t, float>);
}

void expect_same_state(Scape& one, Scape& two) {
    const RankState a = one.state();
    const RankState b = two.state();
    EXPECT_EQ(a.step, b.step);
    EXPECT_TRUE(same_bits(a.parameters, b.parameters));
    EXPECT_TRUE(same_bits(a.residual, b.residual));
    EXPECT_TRUE(same_bits(a.packed_moment, b.packed_moment));
    EXPECT_TRUE(
        std::equal(a.current.words(), a.current.words() + a.current.word_count(), b.current.words()));
    EXPECT_TRUE(std::equal(a.coming.words(), a.coming.words() + a.coming.word_count(), b.coming.words()));
}

std::string error_of(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(Buckets, AreCutAsABackwardPassComes) {
    const Layout model({{"a", 3}, {"b", 1}, {"c", 10}, {"d", 0}, {"e", 2}});
    EXPECT_EQ(buckets_of(model, 16), (Buckets{{4, 3}, {2}, {1, 0}}));
    EXPECT_EQ(buckets_of(model, 4), (Buckets{{4}, {3}, {2}, {1}, {0}}));
    EXPECT_EQ(buckets_of(model, 1U << 20U), (Buckets{{4, 3, 2, 1, 0}}));
    EXPECT_NE(error_of([&] { static_cast<void>(buckets_of(model, 3)); }).find("a value needs 4"),
              std::string::npos);
}

/// Cuts that change from step to step, in other orders than the backward pass's.
Buckets cut_of_step(Index step) {
    const std::vector<Buckets> cuts{
        {{4}, {3}, {2}, {1}, {0}}, {{3, 0}, {4, 2, 1}}, {{0, 1, 2, 3, 4}}, {{2}, {0}, {4, 1}, {3}}};
    return cuts[static_cast<std::size_t>(step) % cuts.size()];
}

/// Each bucket's gradient arrives after the one before was given; the rest is NaN until then.
void step_in_buckets(Scape& optimizer, const std::vector<float>& g, const Buckets& cut) {
    const Layout& model = optimizer.problem().layout;
    std::vector<float> coming(g.size(), std::numeric_limits<float>::quiet_NaN());
    for (const auto& tensors : cut) {
        for (const std::size_t tensor : tensors)
            std::copy(g.begin() + model.begin(tensor), g.begin() + model.end(tensor),
                      coming.begin() + model.begin(tensor));
        optimizer.bucket(tensors, coming);
    }
    optimizer.step(coming, 0.01);
}

void expect_same_bits(int workers, double density, PartitionRule partition, double clip_norm) {
    problem::HyperParameters hyper;
    hyper.clip_norm = clip_norm;
    const auto setting = make_setting(workers, density, partition, hyper);
    run_ranks(workers, [&](Communicator& inner) {
        Rank at_once(inner, setting);
        Rank in_parts(inner, setting);
        in_parts.counting().reset();
        for (Index step = 1; step <= 6; ++step) {
            const std::vector<float> first = in_parts.gradient(100 * step);
            const std::vector<float> second = in_parts.gradient(100 * step + 1);
            const std::vector<float> last = in_parts.gradient(step);
            std::vector<float> sum;
            for (std::size_t i = 0; i < last.size(); ++i)
                sum.push_back((first[i] + second[i]) + last[i]);
            at_once.optimizer().step(sum, 0.01);
            in_parts.optimizer().accumulate(first);
            in_parts.optimizer().accumulate(second);
            if (step % 3 == 0) {
                in_parts.optimizer().accumulate(last);
                in_parts.optimizer().step(0.01);
            } else {
                step_in_buckets(in_parts.optimizer(), last, cut_of_step(step));
            }
            expect_same_state(at_once.optimizer(), in_parts.optimizer());
            EXPECT_EQ(at_once.optimizer().statistics().sent[1], in_parts.optimizer().statistics().sent[1]);
            EXPECT_EQ(at_once.optimizer().statistics().sent[2], in_parts.optimizer().statistics().sent[2]);
            EXPECT_EQ(in_parts.optimizer().statistics().sent, in_parts.counting().bytes());
            in_parts.counting().reset();
        }
    });
}

TEST(Parts, GiveTheBitsOfAStepAtOnce) {
    for (const int workers : {1, 2, 3, 5})
        for (const double density : {1.0, 0.1, 0.01})
            expect_same_bits(workers, density, PartitionRule::by_shard, 0.0);
    expect_same_bits(3, 0.1, PartitionRule::by_tensor, 0.5);
    expect_same_bits(7, 0.3, PartitionRule::by_tensor, 0.0);
}

TEST(Parts, ARefusedStepForgetsThemAndHasChangedNothing) {
    const auto setting = make_setting(3, 0.1, PartitionRule::by_shard);
    constexpr float most = std::numeric_limits<float>::max();
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), most})
        for (const bool buckets : {false, true})
            run_ranks(3, [&](Communicator& inner) {
                Rank rank(inner, setting);
                Rank untouched(inner, setting);
                rank.step(1);
                untouched.step(1);
                // Finite in each part, where it is not a NaN: the sum overflows.
                auto g = rank.gradient(2);
                if (inner.rank() == 2)
                    g[4510] = bad;
                rank.optimizer().accumulate(g);
                try {
                    if (buckets)
                        step_in_buckets(rank.optimizer(), g, cut_of_step(2));
                    else
                        rank.optimizer().step(g, 0.01);
                    ADD_FAILURE() << "not refused";
                } catch (const RefusedStep& refused) {
                    EXPECT_EQ(refused.rank, 2);
                    EXPECT_EQ(refused.index, 4510);
                }
                expect_same_state(rank.optimizer(), untouched.optimizer());
                rank.step(2);
                untouched.step(2);
                expect_same_state(rank.optimizer(), untouched.optimizer());
            });
}

TEST(Parts, LargePartsWhoseSumIsNotAreAccepted) {
    const auto setting = make_setting(2, 0.1, PartitionRule::by_shard);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        Rank at_once(inner, setting);
        auto g = rank.gradient(1);
        g[7] = 0x1p60F;
        rank.optimizer().accumulate(g);
        std::ranges::fill(g, 0.0F);
        g[7] = -0x1p60F;
        rank.optimizer().step(g, 0.01);
        g = rank.gradient(1);
        g[7] = 0.0F;
        at_once.optimizer().step(g, 0.01);
        expect_same_state(rank.optimizer(), at_once.optimizer());
    });
}

/// The actions of each rank in step 2, all of which must end in errors that contain `part`; then a
/// good step.
using Wrong = std::function<void(Scape&, const std::vector<float>&, int rank)>;
void expect_error_on_all(const std::string& part, const Wrong& wrong) {
    const auto setting = make_setting(3, 0.1, PartitionRule::by_shard);
    run_ranks(3, [&](Communicator& inner) {
        Rank rank(inner, setting);
        Rank untouched(inner, setting);
        rank.step(1);
        untouched.step(1);
        const auto g = rank.gradient(2);
        const std::string error = error_of([&] { wrong(rank.optimizer(), g, inner.rank()); });
        EXPECT_NE(error.find(part), std::string::npos) << error;
        EXPECT_EQ(error.find('\n'), std::string::npos);
        expect_same_state(rank.optimizer(), untouched.optimizer());
        step_in_buckets(rank.optimizer(), g, cut_of_step(1));
        untouched.step(2);
        expect_same_state(rank.optimizer(), untouched.optimizer());
    });
}

TEST(WrongBuckets, InAnotherOrderOnOneRankAreAnErrorOnAll) {
    expect_error_on_all("step 2, bucket 2: rank 0 gives a bucket, rank 1 another one",
                        [](Scape& optimizer, const std::vector<float>& g, int rank) {
                            Buckets cut = cut_of_step(0);
                            if (rank == 1)
                                std::swap(cut[1], cut[2]);
                            step_in_buckets(optimizer, g, cut);
                        });
}

TEST(WrongBuckets, OnSomeRanksAloneAreAnErrorOnAll) {
    expect_error_on_all("rank 0 gives a bucket, rank 2 takes the step",
                        [](Scape& optimizer, const std::vector<float>& g, int rank) {
                            step_in_buckets(optimizer, g, rank == 2 ? Buckets{} : cut_of_step(1));
                        });
    expect_error_on_all("step 2", [](Scape& optimizer, const std::vector<float>& g, int rank) {
        Buckets cut = cut_of_step(0);
        if (rank == 0)
            cut.pop_back();
        step_in_buckets(optimizer, g, cut);
    });
}

TEST(WrongBuckets, MissingTwiceOrUnknownTensorsAreAnErrorOnAll) {
    const auto with = [](Buckets cut) {
        return [cut](Scape& optimizer, const std::vector<float>& g, int) {
            for (const auto& tensors : cut)
                optimizer.bucket(tensors, g);
            optimizer.step(g, 0.01);
        };
    };
    expect_error_on_all("step 2: no bucket has held tensor gate; give every tensor",
                        with({{0, 1}, {4, 3}}));
    expect_error_on_all("bucket 2: tensor norm comes a second time", with({{0, 1}, {4, 1}, {2, 3}}));
    expect_error_on_all("bucket 1: tensor norm comes a second time", with({{0, 1, 1}, {4}, {2, 3}}));
    expect_error_on_all("bucket 1: there is no tensor 5", with({{5}}));
    expect_error_on_all("bucket 1: it has no tensors", with({{}}));
}

TEST(WrongBuckets, OfOneRankAloneAreItsOwnErrorThereAndToldOnTheOthers) {
    const auto setting = make_setting(3, 0.1, PartitionRule::by_shard);
    run_ranks(3, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.step(1);
        const auto g = rank.gradient(2);
        const std::vector<std::size_t> bucket{inner.rank() == 1 ? std::size_t{9} : std::size_t{0}};
        EXPECT_EQ(
            error_of([&] { rank.optimizer().bucket(bucket, g); }),
            inner.rank() == 1
                ? "step 2, bucket 1: there is no tensor 9; the model has 5, from 0 on"
                : "step 2, bucket 1: rank 1 refused the step, and its own error says why; nothing has "
                  "changed on any rank");
        rank.step(2);
        EXPECT_EQ(rank.optimizer().steps(), 2);
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

TEST(WrongParts, ChangeNothing) {
    const auto setting = make_setting(2, 0.1, PartitionRule::by_shard);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        Scape& optimizer = rank.optimizer();
        rank.step(1);
        const auto g = rank.gradient(2);
        EXPECT_NE(error_of([&] { optimizer.step(0.01); }).find("nothing has been accumulated"),
                  std::string::npos);
        EXPECT_NE(error_of([&] { optimizer.accumulate(std::span(g).first(3)); }).find("3 values given"),
                  std::string::npos);
        optimizer.accumulate(g);
        EXPECT_NE(error_of([&] { static_cast<void>(optimizer.state()); }).find("within a step"),
                  std::string::npos);
        optimizer.bucket(std::vector<std::size_t>{0}, g);
        EXPECT_NE(error_of([&] { optimizer.accumulate(g); }).find("after buckets"), std::string::npos);
        EXPECT_NE(error_of([&] { optimizer.step(0.01); }).find("after buckets"), std::string::npos);
        optimizer.forget_parts();
        EXPECT_EQ(optimizer.state().step, 1);
        rank.step(2);
        EXPECT_EQ(optimizer.steps(), 2);
        static_cast<void>(optimizer.coming_mask());
    });
}

TEST(Parts, ARestoredStateHasNone) {
    const auto setting = make_setting(2, 0.1, PartitionRule::by_shard);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        Rank untouched(inner, setting);
        rank.step(1);
        untouched.step(1);
        const RankState state = rank.optimizer().state();
        rank.optimizer().accumulate(rank.gradient(7));
        rank.optimizer().bucket(std::vector<std::size_t>{4, 3}, rank.gradient(8));
        rank.optimizer().restore(state);
        rank.step(2);
        untouched.step(2);
        expect_same_state(rank.optimizer(), untouched.optimizer());
    });
}

} // namespace
} // namespace truestep::distributed::scape
