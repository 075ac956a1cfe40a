// Compares the sharded implementation with the reference.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/optimizer.hpp>
#include <truestep/verify/report.hpp>

#include "sharded_support.hpp"

namespace truestep::distributed::scape {
namespace {

using problem::DataClass;
using problem::PartitionRule;
using verify::Status;

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
    for (const Index total : {1, 2, 3, 63, 64, 65, 127, 128, 4095, 4096, 4097, 8191, 8193})
        for (const int workers : {1, 3})
            expect_passes(make_setting(workers, 0.1, PartitionRule::by_shard, {},
                                       problem::Layout({{"all", total, false}})));
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

/// A communicator without pieces.
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
} // namespace truestep::distributed::scape
