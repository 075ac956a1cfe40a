// The sharded implementation beside the reference, and what it sends.
#include <algorithm>
#include <filesystem>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "check.hpp"
#include <scape/distributed/counting.hpp>
#include <scape/distributed/host_backend.hpp>
#include <scape/distributed/in_process.hpp>
#include <scape/optimizer.hpp>
#include <scape/verify/report.hpp>

namespace scape::distributed {
namespace {

using problem::DataClass;
using problem::PartitionRule;
using verify::CheckSetting;
using verify::Status;

problem::Layout small_model() {
    return problem::Layout({{"embed", 4500, false},
                            {"norm", 33, true},
                            {"gate", 1, false},
                            {"mlp", 901, false},
                            {"tiny", 7, false}});
}

CheckSetting make_setting(int workers, double density, PartitionRule partition,
                          const problem::HyperParameters& hyper = {}, problem::Layout model = small_model(),
                          problem::Algorithm algorithm = problem::Algorithm::scape) {
    CheckSetting setting{problem::make_problem(algorithm, workers, std::move(model), partition, hyper),
                         partition, problem::DensitySchedule::constant(density)};
    setting.steps = 5;
    return setting;
}

std::filesystem::path scratch() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "_" + test->name() + ".safetensors";
    std::replace(name.begin(), name.end(), '/', '_');
    return std::filesystem::path(testing::TempDir()) / name;
}

void expect_passes(const CheckSetting& setting) {
    run_ranks(setting.problem.workers, [&](Communicator& communicator) {
        const auto outcome = check_sharded(setting, communicator, scratch());
        if (communicator.rank() == 0) {
            EXPECT_EQ(outcome.status(), Status::passed)
                << text_report(*outcome.verdict) << outcome.replica_drift;
        }
    });
    std::filesystem::remove(scratch());
}

class Matrix : public testing::TestWithParam<std::tuple<int, double>> {};

TEST_P(Matrix, EqualsTheReferenceInEveryBit) {
    const auto [workers, density] = GetParam();
    for (const auto partition : {PartitionRule::by_shard, PartitionRule::by_tensor})
        for (const auto correction : {problem::BiasCorrection::none, problem::BiasCorrection::adam,
                                      problem::BiasCorrection::momentum}) {
            problem::HyperParameters hyper;
            hyper.bias_correction = correction;
            expect_passes(make_setting(workers, density, partition, hyper));
        }
}

TEST_P(Matrix, ClippedEqualsTheReferenceInEveryBit) {
    const auto [workers, density] = GetParam();
    problem::HyperParameters hyper;
    hyper.clip_norm = 0.5;
    expect_passes(make_setting(workers, density, PartitionRule::by_shard, hyper));
}

TEST_P(Matrix, NativeReductionIsWithinTheBound) {
    const auto [workers, density] = GetParam();
    auto setting = make_setting(workers, density, PartitionRule::by_shard);
    setting.reduction = Reduction::native;
    expect_passes(setting);
}

INSTANTIATE_TEST_SUITE_P(Sharded, Matrix,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5, 7, 8),
                                          testing::Values(1.0, 0.5, 0.1, 0.01, 0.001)));

TEST(Sharded, EqualsTheReferenceOnEveryClassOfData) {
    for (const auto data : {DataClass::normal, DataClass::dyadic, DataClass::ties, DataClass::sparse,
                            DataClass::subnormal, DataClass::wide}) {
        problem::HyperParameters hyper;
        hyper.epsilon = data == DataClass::subnormal ? 1e-40 : 1e-8;
        auto setting = make_setting(3, 0.1, PartitionRule::by_shard, hyper);
        setting.data = data;
        expect_passes(setting);
    }
}

TEST(Sharded, EqualsTheReferenceAtSizesAroundWordsAndBlocks) {
    for (const Index size : {1, 2, 3, 63, 64, 65, 127, 128, 4095, 4096, 4097, 8191, 8193})
        for (const int workers : {1, 3})
            expect_passes(make_setting(workers, 0.1, PartitionRule::by_shard, {},
                                       problem::Layout({{"all", size, false}})));
}

TEST(Sharded, MoreWorkersThanParametersAndEmptyRanges) {
    for (const auto partition : {PartitionRule::by_shard, PartitionRule::by_tensor})
        expect_passes(make_setting(8, 0.5, partition, {},
                                   problem::Layout({{"a", 2, false}, {"b", 1, true}, {"none", 0, false}})));
}

TEST(Sharded, FollowsSchedulesOfDensity) {
    auto setting = make_setting(3, 0.1, PartitionRule::by_shard);
    setting.density = problem::DensitySchedule::geometric(1.0, 0.01, 6);
    setting.steps = 9;
    expect_passes(setting);
}

TEST(Sharded, ThreadsChangeNoBit) {
    for (const int threads : {2, 3, 5}) {
        auto setting =
            make_setting(2, 0.1, PartitionRule::by_shard, {}, problem::Layout({{"all", 50'001, false}}));
        setting.threads = threads;
        expect_passes(setting);
    }
}

TEST(Sharded, PiecesChangeNoBit) {
    for (const int workers : {2, 3, 5})
        for (const Index piece : {1, 7, 64, 1000})
            for (const auto partition : {PartitionRule::by_shard, PartitionRule::by_tensor}) {
                auto setting = make_setting(workers, 0.1, partition);
                setting.largest_piece = piece;
                setting.steps = 3;
                expect_passes(setting);
            }
}

/// As a communicator that knows nothing of pieces.
class WholeParts final : public Communicator {
  public:
    explicit WholeParts(Communicator& inner) : inner_(inner) {}
    int rank() const override { return inner_.rank(); }
    int size() const override { return inner_.size(); }
    std::string name() const override { return "whole"; }
    std::unique_ptr<Exchange> start_all_to_all(Traffic traffic, const void* send, Sizes send_sizes,
                                               void* receive, Sizes receive_sizes) override {
        return inner_.start_all_to_all(traffic, send, send_sizes, receive, receive_sizes);
    }
    std::unique_ptr<Exchange> start_all_gather(Traffic traffic, const void* send, void* receive,
                                               Sizes sizes) override {
        return inner_.start_all_gather(traffic, send, receive, sizes);
    }
    std::unique_ptr<Exchange> start_reduce_scatter(Traffic traffic, const float* send, float* receive,
                                                   Sizes sizes) override {
        return inner_.start_reduce_scatter(traffic, send, receive, sizes);
    }
    void progress() override { inner_.progress(); }
    void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

  private:
    Communicator& inner_;
};

TEST(Sharded, ACommunicatorNeedNotSendPieces) {
    auto setting = make_setting(3, 0.1, PartitionRule::by_shard);
    setting.largest_piece = 10;
    run_ranks(3, [&](Communicator& inner) {
        WholeParts whole(inner);
        const auto outcome = check_sharded(setting, whole, scratch());
        if (inner.rank() == 0) {
            EXPECT_EQ(outcome.status(), Status::passed) << outcome.replica_drift;
        }
        const std::vector<std::size_t> sizes{1, 0, 5};
        EXPECT_THROW((void)whole.start_all_to_owners(Traffic::payload, nullptr, sizes, {0, 4}, nullptr),
                     std::logic_error);
    });
    std::filesystem::remove(scratch());
}

TEST(Sharded, AThousandStepsWithoutOneDifferingBit) {
    auto setting = make_setting(3, 0.05, PartitionRule::by_shard, {},
                                problem::Layout({{"a", 150, false}, {"b", 51, false}}));
    setting.steps = 1000;
    expect_passes(setting);
}

TEST(ShardedAdamS, EqualsTheReferenceInEveryBit) {
    for (const int workers : {1, 2, 3, 4, 5, 7, 8})
        for (const auto partition : {PartitionRule::by_shard, PartitionRule::by_tensor})
            for (const auto correction : {problem::BiasCorrection::none, problem::BiasCorrection::adam,
                                          problem::BiasCorrection::momentum}) {
                problem::HyperParameters hyper;
                hyper.bias_correction = correction;
                expect_passes(
                    make_setting(workers, 1.0, partition, hyper, small_model(), problem::Algorithm::adams));
            }
}

TEST(ShardedAdamS, NativeReductionIsWithinTheBound) {
    auto setting =
        make_setting(5, 1.0, PartitionRule::by_shard, {}, small_model(), problem::Algorithm::adams);
    setting.reduction = Reduction::native;
    expect_passes(setting);
}

// ---------------------------------------------------------------------------------------------------------------
// Traffic (property 9, section 4's figures)

/// A rank of SCAPE over a counting communicator, with made-up gradients.
class Rank {
  public:
    Rank(Communicator& inner, const CheckSetting& setting, const Disturbance& disturbance = {})
        : setting_(setting), counting_(inner, disturbance),
          optimizer_(setting.problem,
                     problem::ranges(setting.problem.layout, setting.problem.workers, setting.partition),
                     setting.density, make_host_backend(setting.problem, initial(setting)), counting_,
                     {setting.reduction, setting.largest_piece}) {}

    std::vector<float> gradient(Index step) const {
        std::vector<float> g;
        for (Index i = 0; i < setting_.problem.layout.size(); ++i)
            g.push_back(gradient_value(setting_.data, setting_.seed, counting_.rank(), step, i));
        return g;
    }
    void step(Index number) { optimizer_.step(gradient(number), 0.01); }

    CountingCommunicator& counting() { return counting_; }
    Scape& optimizer() { return optimizer_; }

  private:
    static std::vector<float> initial(const CheckSetting& setting) {
        std::vector<float> w;
        for (Index i = 0; i < setting.problem.layout.size(); ++i)
            w.push_back(initial_parameter(setting.data, setting.seed, i));
        return w;
    }

    CheckSetting setting_;
    CountingCommunicator counting_;
    Scape optimizer_;
};

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

/// What a disturbed communicator must not change.
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

TEST(DelayedMask, StepReturnsWhileTheMaskIsStillOnItsWay) {
    // The mask arrives 300 ms after it was sent; a step that waited for it would take as long.
    Disturbance slow;
    slow.delay[static_cast<std::size_t>(Traffic::mask)] = std::chrono::milliseconds(300);
    const auto setting = make_setting(2, 0.1, PartitionRule::by_shard);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting, slow);
        rank.step(1); // waits: the first mask is used at once
        const auto begin = std::chrono::steady_clock::now();
        static_cast<void>(rank.optimizer().coming_mask());
        EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(150))
            << "the delay does nothing";
        const auto second = std::chrono::steady_clock::now();
        rank.step(2);
        EXPECT_LT(std::chrono::steady_clock::now() - second, std::chrono::milliseconds(150));
        static_cast<void>(rank.optimizer().coming_mask());
    });
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

// ---------------------------------------------------------------------------------------------------------------
// Refusals, halting, wrong use

TEST(Refusal, LeavesEveryBitOnEveryRankAndTheNextGoodStepWorks) {
    const auto setting = make_setting(3, 0.1, PartitionRule::by_shard);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 0x1.000002p56F})
        for (const Index at_step : {Index{1}, Index{3}}) {
            std::mutex mutex;
            run_ranks(3, [&](Communicator& inner) {
                Rank rank(inner, setting);
                Rank untouched(inner, setting);
                for (Index step = 1; step < at_step; ++step) {
                    rank.step(step);
                    untouched.step(step);
                }
                auto g = rank.gradient(at_step);
                if (inner.rank() == 1)
                    g[4510] = bad;
                try {
                    rank.optimizer().step(g, 0.01);
                    ADD_FAILURE() << "not refused on rank " << inner.rank();
                } catch (const RefusedStep& refused) {
                    EXPECT_EQ(refused.rank, 1);
                    EXPECT_EQ(refused.index, 4510);
                    EXPECT_NE(std::string(refused.what()).find("rank 1, tensor norm, index 10"),
                              std::string::npos);
                }
                for (Index step = at_step; step <= at_step + 2; ++step) {
                    rank.step(step);
                    untouched.step(step);
                }
                const std::lock_guard lock(mutex);
                const RankState a = rank.optimizer().state();
                const RankState b = untouched.optimizer().state();
                EXPECT_EQ(a.parameters, b.parameters);
                EXPECT_EQ(a.residual, b.residual);
                EXPECT_EQ(a.packed_moment, b.packed_moment);
            });
        }
}

TEST(Refusal, AcceptsTheGreatestGradient) {
    const auto setting = make_setting(2, 0.1, PartitionRule::by_shard);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        auto g = rank.gradient(1);
        g[0] = -0x1p56F;
        EXPECT_NO_THROW(rank.optimizer().step(g, 0.01));
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

TEST(Halting, NonFiniteParametersEndAllRanksUntilAStateIsRestored) {
    const auto setting = make_setting(2, 0.5, PartitionRule::by_shard);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.step(1);
        const RankState good = rank.optimizer().state();
        EXPECT_THROW(rank.optimizer().step(rank.gradient(2), 1e39), Halted);
        EXPECT_THROW(rank.step(3), Halted);
        rank.optimizer().restore(good);
        EXPECT_NO_THROW(rank.step(2));
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

TEST(WrongUse, RanksWithDifferentProblemsAreToldBeforeTheFirstStep) {
    EXPECT_THROW(run_ranks(3,
                           [&](Communicator& inner) {
                               problem::HyperParameters hyper;
                               hyper.beta1 = inner.rank() == 2 ? 0.95 : 0.9;
                               Rank rank(inner, make_setting(3, 0.1, PartitionRule::by_shard, hyper));
                           }),
                 Error);
}

TEST(WrongUse, RanksWithDifferentParametersAreToldBeforeTheFirstStep) {
    EXPECT_THROW(run_ranks(3,
                           [](Communicator& communicator) {
                               std::vector<float> parameters(100, 0.5F);
                               parameters[99] = communicator.rank() == 1 ? 0.25F : 0.5F;
                               static_cast<void>(make_optimizer(Layout({{"w", 100, false}}), {},
                                                                communicator, parameters));
                           }),
                 Error);
}

TEST(WrongUse, ParametersThatAreNotFiniteAreRefused) {
    run_ranks(2, [](Communicator& communicator) {
        std::vector<float> parameters(100, 0.5F);
        parameters[7] = std::numeric_limits<float>::quiet_NaN();
        EXPECT_THROW(
            static_cast<void>(make_optimizer(Layout({{"w", 100, false}}), {}, communicator, parameters)),
            Error);
    });
}

TEST(WrongUse, AWrongGradientSizeOrLearningRateChangesNothing) {
    const auto setting = make_setting(2, 0.1, PartitionRule::by_shard);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.step(1);
        const RankState before = rank.optimizer().state();
        const auto g = rank.gradient(2);
        EXPECT_THROW(rank.optimizer().step(std::span(g).first(10), 0.01), Error);
        EXPECT_THROW(rank.optimizer().step(g, std::numeric_limits<double>::quiet_NaN()), Error);
        EXPECT_EQ(rank.optimizer().state().residual, before.residual);
        EXPECT_NO_THROW(rank.optimizer().step(g, 0.01));
        static_cast<void>(rank.optimizer().coming_mask());
    });
}

TEST(WrongUse, AStateThatIsNotFiniteIsNeitherSavedNorRestored) {
    const auto setting = make_setting(2, 0.5, PartitionRule::by_shard);
    run_ranks(2, [&](Communicator& inner) {
        Rank rank(inner, setting);
        rank.step(1);
        RankState bad = rank.optimizer().state();
        bad.residual[5] = std::numeric_limits<float>::infinity();
        EXPECT_THROW(rank.optimizer().restore(bad), Error);
        EXPECT_THROW(rank.optimizer().step(rank.gradient(2), 1e39), Halted);
        EXPECT_THROW(static_cast<void>(rank.optimizer().state()), Halted);
        EXPECT_THROW(static_cast<void>(rank.optimizer().coming_mask()), Halted);
    });
}

TEST(WrongUse, AnotherNumberOfRanksThanWorkersIsRefused) {
    EXPECT_THROW(run_ranks(2,
                           [&](Communicator& inner) {
                               Rank rank(inner, make_setting(3, 0.1, PartitionRule::by_shard));
                           }),
                 Error);
}

TEST(PublicInterface, TakesStepsAndRefusesWrongSizes) {
    run_ranks(2, [](Communicator& communicator) {
        const Layout model({{"wq", 1000, false}, {"norm", 10, true}});
        std::vector<float> parameters(1010, 0.5F);
        Settings settings;
        EXPECT_THROW(static_cast<void>(
                         make_optimizer(model, settings, communicator, std::span(parameters).first(10))),
                     Error);
        auto optimizer = make_optimizer(model, settings, communicator, parameters);
        const std::vector<float> gradient(1010, 0.25F);
        optimizer->step(gradient, 0.01);
        EXPECT_NE(optimizer->parameters()[0], 0.5F);
        // 1 % of each piece of wq, [0, 505) and [505, 1000), and all of norm.
        EXPECT_EQ(optimizer->statistics().selected, 5 + 4 + 10);
        static_cast<void>(optimizer->coming_mask());
    });
}

} // namespace
} // namespace scape::distributed
