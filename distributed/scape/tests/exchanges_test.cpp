// When the sharded implementation sends how much: traffic (property 9, section 4's figures) and the
// mask on its way.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sharded_support.hpp"

namespace truestep::distributed::scape {
namespace {

using problem::PartitionRule;

TEST(Traffic, OnePayloadExchangeAndOneMaskExchangePerStepAndTheBytesOfSectionFour) {
    constexpr int workers = 8;
    constexpr Index d = 80'000;
    const auto setting =
        make_setting(workers, 0.01, PartitionRule::by_shard, {}, problem::Layout({{"all", d, false}}));
    run_ranks(workers, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.step(1);
        for (Index step = 2; step <= 5; ++step) {
            rank.counting().reset();
            rank.step(step);
            auto& counting = rank.counting();
            EXPECT_EQ(counting.exchanges(Traffic::payload), 1U);
            EXPECT_EQ(counting.exchanges(Traffic::moment), 1U);
            EXPECT_EQ(counting.exchanges(Traffic::mask), 1U);
            EXPECT_EQ(counting.exchanges(Traffic::agreement), 1U);
            EXPECT_EQ(counting.exchanges(Traffic::gradient) + counting.exchanges(Traffic::parameters), 0U);
            // Equal shards: k/P of k values stay, k/P values go to each of the others on the way back.
            constexpr std::uint64_t k = d / 100;
            EXPECT_EQ(counting.bytes(Traffic::payload), 4 * k * (workers - 1) / workers);
            EXPECT_EQ(counting.bytes(Traffic::moment), 4 * k * (workers - 1) / workers);
            EXPECT_EQ(counting.bytes(Traffic::mask),
                      coded_bytes(d / workers, d / workers / 100) * (workers - 1));
            const double total =
                static_cast<double>(counting.bytes(Traffic::payload) + counting.bytes(Traffic::moment) +
                                    counting.bytes(Traffic::mask));
            EXPECT_LE(total / d, 0.095 * 7.0 / 8.0) << "bytes per parameter, rank and step at 1 %";
            EXPECT_EQ(rank.optimizer().statistics().sent, counting.bytes())
                << "the implementation's own account";
        }
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

TEST(Traffic, PiecesAreTheSameBytes) {
    constexpr int workers = 4;
    constexpr Index d = 4000;
    auto setting =
        make_setting(workers, 0.1, PartitionRule::by_shard, {}, problem::Layout({{"all", d, false}}));
    setting.largest_piece = 30;
    run_ranks(workers, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.counting().reset();
        rank.step(1);
        EXPECT_EQ(rank.counting().exchanges(Traffic::payload), 4U) << "of 100 values for each owner";
        EXPECT_EQ(rank.optimizer().statistics().sent, rank.counting().bytes());
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

TEST(Traffic, TheOwnAccountIsTrueForUnevenRangesDenseTensorsAndBothReductions) {
    for (const auto partition : {PartitionRule::by_shard, PartitionRule::by_tensor})
        for (const auto reduction : {Reduction::ordered, Reduction::native})
            for (const int workers : {1, 2, 3, 5}) {
                auto setting = make_setting(workers, 0.05, partition);
                setting.reduction = reduction;
                run_ranks(workers, [&](Communicator& inner) {
                    Rank rank(inner, setting);
                    for (Index step = 1; step <= 3; ++step) {
                        rank.counting().reset();
                        rank.step(step);
                        EXPECT_EQ(rank.optimizer().statistics().sent, rank.counting().bytes());
                    }
                    static_cast<void>(rank.optimizer().coming_mask());
                });
            }
}

TEST(Statistics, TellHowManyCoordinatesTheMaskKeptAndTheNormBeforeClipping) {
    problem::HyperParameters hyper;
    hyper.clip_norm = 0.5;
    const auto setting = make_setting(2, 0.1, PartitionRule::by_shard, hyper);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.step(1);
        EXPECT_EQ(rank.optimizer().statistics().kept, 0) << "there is no mask before the first";
        for (Index step = 2; step <= 4; ++step) {
            const Mask before = rank.optimizer().mask();
            rank.step(step);
            const Mask& used = rank.optimizer().mask();
            Index common = 0;
            for (Index i = 0; i < used.size(); ++i)
                common += before.test(i) && used.test(i) ? 1 : 0;
            const Statistics& statistics = rank.optimizer().statistics();
            EXPECT_EQ(statistics.step, step);
            EXPECT_EQ(statistics.selected, used.selected());
            EXPECT_EQ(statistics.kept, common);
            EXPECT_GT(common, 0);
            if (step > 2) { // the first two are both made from c_1
                EXPECT_LT(common, used.selected());
            }
            EXPECT_GT(statistics.gradient_norm, hyper.clip_norm);
            EXPECT_FLOAT_EQ(statistics.clip_factor,
                            static_cast<float>(hyper.clip_norm / (statistics.gradient_norm + 1e-6)));
        }
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

/// The parameters after some steps, which a disturbed communicator must not change.
std::vector<float> parameters_after(const CheckSetting& setting, Index steps,
                                    const Disturbance& disturbance) {
    std::vector<float> result;
    run_ranks(setting.problem.workers, [&](Communicator& inner) {
        Rank rank(inner, setting, disturbance);
        for (Index step = 1; step <= steps; ++step)
            rank.step(step);
        const auto w = rank.optimizer().parameters();
        if (inner.rank() == 1)
            result.assign(w.begin(), w.end());
        static_cast<void>(rank.optimizer().coming_mask());
    });
    return result;
}

TEST(DelayedMask, LateOvertakenOrHeldBackItChangesNoBit) {
    const auto setting = make_setting(3, 0.1, PartitionRule::by_shard);
    const auto undisturbed = parameters_after(setting, 6, {});
    const auto mask = static_cast<std::size_t>(Traffic::mask);
    Disturbance delayed;
    delayed.delay[mask] = std::chrono::milliseconds(3);
    Disturbance late;
    late.late_start[mask] = 3;
    Disturbance held;
    held.hold_back.fill(true);
    Disturbance newest;
    newest.newest_first = true;
    for (const Disturbance& disturbance : {delayed, late, held, newest})
        EXPECT_EQ(parameters_after(setting, 6, disturbance), undisturbed);
}

/// Counts the masks that have been started, and those that have been waited for, which is the only
/// way to get one.
class MaskWatch final : public Communicator {
  public:
    explicit MaskWatch(Communicator& inner) : inner_(inner) {}
    [[nodiscard]] int started() const { return started_; }
    [[nodiscard]] int waited_for() const { return waited_for_; }
    /// The next wait ends as one whose peer has died.
    void lose_next() { loses_next_ = true; }

    [[nodiscard]] int rank() const override { return inner_.rank(); }
    [[nodiscard]] int size() const override { return inner_.size(); }
    [[nodiscard]] std::string name() const override { return inner_.name(); }
    std::unique_ptr<Exchange> start_all_to_all(Traffic traffic, const void* send, Sizes send_sizes,
                                               void* receive, Sizes receive_sizes) override {
        return inner_.start_all_to_all(traffic, send, send_sizes, receive, receive_sizes);
    }
    std::unique_ptr<Exchange> start_all_gather(Traffic traffic, const void* send, void* receive,
                                               Sizes sizes) override {
        auto exchange = inner_.start_all_gather(traffic, send, receive, sizes);
        if (traffic != Traffic::mask)
            return exchange;
        ++started_;
        return std::make_unique<Watched>(*this, std::move(exchange));
    }
    std::unique_ptr<Exchange> start_reduce_scatter(Traffic traffic, const float* send, float* receive,
                                                   Sizes sizes) override {
        return inner_.start_reduce_scatter(traffic, send, receive, sizes);
    }
    void progress() override { inner_.progress(); }
    void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

  private:
    class Watched final : public Exchange {
      public:
        Watched(MaskWatch& watch, std::unique_ptr<Exchange> inner)
            : watch_(watch), inner_(std::move(inner)) {}
        void wait() override {
            ++watch_.waited_for_;
            inner_->wait();
            if (std::exchange(watch_.loses_next_, false))
                throw Aborted("rank 1 has left");
        }

      private:
        MaskWatch& watch_;
        std::unique_ptr<Exchange> inner_;
    };

    Communicator& inner_;
    int started_ = 0;
    int waited_for_ = 0;
    bool loses_next_ = false;
};

TEST(DelayedMask, StepReturnsWhileTheMaskIsStillOnItsWay) {
    const auto setting = make_setting(2, 0.1, PartitionRule::by_shard);
    run_ranks(2, [&](Communicator& inner) {
        MaskWatch masks(inner);
        Rank rank(masks, setting);
        rank.step(1); // waits for the first, which is used at once
        for (int step = 2; step <= 4; ++step) {
            EXPECT_EQ(masks.started(), step);
            EXPECT_EQ(masks.waited_for(), step - 1) << "the step has waited for the mask that it made";
            rank.step(step);
        }
        static_cast<void>(rank.optimizer().coming_mask());
        EXPECT_EQ(masks.waited_for(), masks.started());
    });
}

TEST(DelayedMask, OneThatWasLostIsNotTheLastOne) {
    problem::HyperParameters rounded;
    rounded.payload = problem::Payload::bf16; // the agreement waits for the mask
    for (const auto& hyper : {problem::HyperParameters{}, rounded})
        for (const bool in_a_step : {false, true}) {
            const auto setting = make_setting(2, 0.1, PartitionRule::by_shard, hyper);
            run_ranks(2, [&](Communicator& inner) {
                MaskWatch masks(inner);
                Rank rank(masks, setting);
                rank.step(1);
                const RankState good = rank.optimizer().state();
                rank.step(2);
                masks.lose_next();
                if (in_a_step)
                    EXPECT_THROW(rank.step(3), Aborted);
                else
                    EXPECT_THROW(static_cast<void>(rank.optimizer().coming_mask()), Aborted);
                EXPECT_THROW(static_cast<void>(rank.optimizer().coming_mask()), Halted);
                EXPECT_THROW(static_cast<void>(rank.optimizer().state()), Halted);
                EXPECT_THROW(rank.step(3), Halted);
                rank.optimizer().restore(good);
                EXPECT_NO_THROW(rank.step(2));
                static_cast<void>(rank.optimizer().coming_mask());
            });
        }
}

TEST(DelayedMask, DependsOnNothingLaterThanTheStepThatMadeIt) {
    // Property 5: another gradient at step t+1 changes no bit of S_{t+1}.
    const auto setting = make_setting(3, 0.1, PartitionRule::by_shard);
    const auto mask_after = [&](float factor) {
        std::vector<std::uint64_t> words;
        run_ranks(3, [&](Communicator& inner) {
            Rank rank(inner, setting);
            for (Index step = 1; step <= 3; ++step)
                rank.step(step);
            auto g = rank.gradient(4);
            for (float& value : g)
                value = value * factor;
            rank.optimizer().step(g, 0.01);
            const Mask& used = rank.optimizer().mask();
            if (inner.rank() == 0)
                words.assign(used.words(), used.words() + used.word_count());
            static_cast<void>(rank.optimizer().coming_mask());
        });
        return words;
    };
    EXPECT_EQ(mask_after(1.0F), mask_after(-17.0F));
}

} // namespace
} // namespace truestep::distributed::scape
