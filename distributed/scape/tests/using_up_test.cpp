// Compares a step that consumes its gradient with one that does not; two wrong ways must be
// noticed.
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/distributed/scape/forwarding_backend.hpp>
#include <truestep/optimizer.hpp>
#include <truestep/problem/data.hpp>

#include "sharded_support.hpp"

namespace truestep::distributed::scape {
namespace {

using problem::PartitionRule;

/// A model with segments that the local pass searches, and others that it does not.
problem::Layout larger_model() {
    return problem::Layout(
        {{"embed", 30'011, false}, {"norm", 33, true}, {"mlp", 61'001, false}, {"tiny", 70, false}});
}

enum class KnownBug { none, swaps_on_one_rank_only, writes_into_the_state, ends_the_second_step };

class Mistaken final : public ForwardingBackend, public ConsumedGradients {
  public:
    Mistaken(std::unique_ptr<Backend> to, KnownBug known_bug, int rank)
        : ForwardingBackend(std::move(to)), consumed_(*ForwardingBackend::capabilities().consumed),
          known_bug_(known_bug), rank_(rank) {}

    Capabilities capabilities() override {
        Capabilities can = ForwardingBackend::capabilities();
        can.consumed = this;
        return can;
    }

    void keep(AlignedFloats& gradient) override {
        if (known_bug_ != KnownBug::swaps_on_one_rank_only || rank_ == 0)
            consumed_.keep(gradient);
    }
    Refusal local_pass_over(const Scalars& scalars, std::span<float> gradient) override {
        if (known_bug_ == KnownBug::writes_into_the_state)
            local_pass(scalars, gradient.data());
        return consumed_.local_pass_over(scalars, gradient);
    }
    void roll_back() override { consumed_.roll_back(); }
    Verdict update(problem::BiasCorrection correction, const Scalars& scalars) override {
        if (++updates_ == 2 && known_bug_ == KnownBug::ends_the_second_step)
            throw std::runtime_error("the update ends");
        return ForwardingBackend::update(correction, scalars);
    }

  private:
    ConsumedGradients& consumed_;
    KnownBug known_bug_;
    int rank_;
    int updates_ = 0;
};

struct Tried {
    int workers = 3;
    PartitionRule partition = PartitionRule::by_shard;
    problem::DensitySchedule density = problem::DensitySchedule::constant(0.1);
    double clip_norm = 0.0;
    int threads = 1;
    KnownBug known_bug = KnownBug::none;
    Index refused_at = 0; ///< a step that is repeated, because the first time its gradient is refused
    float bad = std::numeric_limits<float>::quiet_NaN();
};
constexpr Index bad_index = 45'100;
constexpr int bad_rank = 0;

/// One rank's optimizer.
std::unique_ptr<Scape> make(const Tried& run, Communicator& communicator) {
    const problem::Layout model = larger_model();
    problem::HyperParameters hyper;
    hyper.clip_norm = run.clip_norm;
    auto problem =
        problem::make_problem(problem::Algorithm::scape, run.workers, model, run.partition, hyper);
    // Each value is drawn on its own, which costs a sanitizer more than all steps: do it once for
    // all runs.
    static const std::vector<float> start =
        initial_parameters(problem::DataClass::normal, 1, larger_model().size());
    auto backend = std::make_unique<Mistaken>(make_host_backend(problem, start, run.threads), run.known_bug,
                                              communicator.rank());
    return std::make_unique<Scape>(std::move(problem), problem::ranges(model, run.workers, run.partition),
                                   run.density, std::move(backend), communicator, Scape::Options{});
}

constexpr int most_ranks_of_gradients = 3;
constexpr Index steps_with_gradients = 5;

AlignedFloats gradient_of(int rank, Index step) {
    static const std::vector<AlignedFloats> drawn = [] {
        const Index coordinates = larger_model().size();
        std::vector<AlignedFloats> all(most_ranks_of_gradients * steps_with_gradients,
                                       AlignedFloats(static_cast<std::size_t>(coordinates)));
        for (std::size_t row = 0; row < all.size(); ++row)
            for (Index i = 0; i < coordinates; ++i)
                all[row][static_cast<std::size_t>(i)] = gradient_value(
                    problem::DataClass::normal, 1, static_cast<int>(row) % most_ranks_of_gradients,
                    static_cast<Index>(row) / most_ranks_of_gradients + 1, i);
        return all;
    }();
    return drawn.at(static_cast<std::size_t>((step - 1) * most_ranks_of_gradients + rank));
}

bool same(const RankState& a, const RankState& b) {
    const auto bits = [](const Mask& mask) {
        return std::vector<std::uint64_t>(mask.words(), mask.words() + mask.word_count());
    };
    return a.step == b.step && a.parameters == b.parameters && a.residual == b.residual &&
           a.packed_moment == b.packed_moment && bits(a.current) == bits(b.current) &&
           bits(a.coming) == bits(b.coming);
}

/// On how many ranks and steps the state differs from that of a step that only reads its gradient.
int differences(const Tried& run) {
    std::mutex mutex;
    int found = 0;
    run_ranks(run.workers, [&](Communicator& communicator) {
        const auto tried = make(run, communicator);
        const auto expected = make({run.workers, run.partition, run.density, run.clip_norm}, communicator);
        const int rank = communicator.rank();
        for (Index step = 1; step <= steps_with_gradients; ++step) {
            if (step == run.refused_at) {
                const RankState before = tried->state();
                AlignedFloats bad = gradient_of(rank, step);
                if (rank == bad_rank)
                    bad[bad_index] = run.bad;
                try {
                    tried->step_using_up(bad, 0.01);
                    ADD_FAILURE() << "not refused";
                } catch (const RefusedStep& refused) {
                    EXPECT_EQ(refused.rank, bad_rank);
                    EXPECT_EQ(refused.index, bad_index);
                    EXPECT_TRUE(refused.value == run.bad || run.bad != run.bad);
                }
                EXPECT_EQ(bad.size(), static_cast<std::size_t>(larger_model().size()));
                const std::lock_guard lock(mutex);
                found += same(tried->state(), before) ? 0 : 1;
            }
            AlignedFloats given = gradient_of(rank, step);
            tried->step_using_up(given, 0.01);
            EXPECT_EQ(given.size(), static_cast<std::size_t>(larger_model().size()));
            std::ranges::fill(given, -1.0F); // it belongs to the caller again
            expected->step(gradient_of(rank, step), 0.01);
            const bool equal = same(tried->state(), expected->state());
            const std::lock_guard lock(mutex);
            found += equal ? 0 : 1;
        }
    });
    return found;
}

TEST(UsingUp, GivesTheBitsOfAStepThatOnlyReads) {
    for (const int workers : {1, 2, 3})
        for (const int threads : {1, 3}) {
            Tried run;
            run.workers = workers;
            run.partition = threads == 1 ? PartitionRule::by_shard : PartitionRule::by_tensor;
            run.threads = threads;
            run.clip_norm = workers == 2 ? 0.5 : 0.0;
            EXPECT_EQ(differences(run), 0) << workers << " ranks, " << threads << " threads";
        }
}

TEST(UsingUp, GivesThemAlsoAsTheDensityFalls) {
    for (const double target : {0.01, 1.0}) {
        Tried run;
        run.density = problem::DensitySchedule::geometric(0.5, target, 4);
        EXPECT_EQ(differences(run), 0) << target;
    }
}

TEST(UsingUp, ARefusedStepLeavesEveryBitAndNamesTheGradient) {
    constexpr float infinite = std::numeric_limits<float>::infinity();
    for (const auto& [workers, threads, at_step, bad] :
         {std::tuple{1, 1, 4, 0x1.000002p56F},
          {3, 1, 1, -infinite},
          {3, 3, 2, 0x1.000002p56F},
          {3, 1, 3, std::numeric_limits<float>::quiet_NaN()}}) {
        Tried run;
        run.workers = workers;
        run.threads = threads;
        run.refused_at = at_step;
        run.bad = bad;
        EXPECT_EQ(differences(run), 0) << workers << " ranks, step " << at_step;
    }
}

TEST(UsingUp, AnInterruptedStepIsNamedAsWithoutIt) {
    Tried run;
    run.workers = 1;
    run.known_bug = KnownBug::ends_the_second_step;
    for (const bool uses_up : {false, true})
        run_ranks(run.workers, [&](Communicator& communicator) {
            const auto tried = make(run, communicator);
            const auto take = [&](Index step) {
                AlignedFloats gradient = gradient_of(0, step);
                uses_up ? tried->step_using_up(gradient, 0.01) : tried->step(gradient, 0.01);
            };
            take(1);
            EXPECT_THROW(take(2), std::runtime_error);
            try {
                take(3);
                ADD_FAILURE() << "another step was taken";
            } catch (const Halted& halted) {
                EXPECT_THAT(halted.what(), testing::HasSubstr("step 2 was interrupted"));
            }
        });
}

TEST(UsingUp, BuffersThatAreSwappedOnOneRankOnlyAreSeen) {
    Tried run;
    run.known_bug = KnownBug::swaps_on_one_rank_only;
    EXPECT_GT(differences(run), 0);
}

TEST(UsingUp, ARefusedStepThatHasTouchedTheStateIsSeen) {
    Tried run;
    run.known_bug = KnownBug::writes_into_the_state;
    run.refused_at = 3;
    EXPECT_GT(differences(run), 0);
}

} // namespace
} // namespace truestep::distributed::scape
