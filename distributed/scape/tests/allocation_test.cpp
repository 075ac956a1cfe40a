// From its third step on an optimizer allocates no memory, in whatever form its gradient comes.
// This is a separate program, because it replaces the global operator new.
#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/counting.hpp>
#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/data.hpp>

#include "counted_memory.hpp"

namespace truestep::distributed::scape {
namespace {

using problem::Payload;

enum class Comes : std::uint8_t { at_once, to_be_used_up, in_micro_batches, in_buckets };

struct Path {
    std::string name;
    int workers = 4;
    Comes comes = Comes::at_once;
    problem::Groups groups{};
    Payload payload = Payload::fp32;
    double clip_norm = 0.0;
    Reduction reduction = Reduction::ordered;
    problem::PartitionRule partition = problem::PartitionRule::by_shard;
    int threads = 1;
    Index embedding = 60'000;
    double density = 0.02;
    Index largest_piece = 0;
};

void PrintTo(const Path& path, std::ostream* to) { // NOLINT: gtest's name
    *to << path.name;
}

problem::Layout model_of(const Path& path) {
    return problem::Layout({{"embedding", path.embedding, false},
                            {"norm", 513, true},
                            {"mlp", 20'000, false},
                            {"tiny", 7, false},
                            {"head", 9'001, false}});
}

/// One rank, with gradients that exist before the counting begins.
class CountedRank {
  public:
    CountedRank(const Path& path, Communicator& inner)
        : path_(path), size_(model_of(path).size()), next_(static_cast<std::size_t>(size_)), bytes_(inner) {
        problem::HyperParameters hyper;
        hyper.groups = path.groups;
        hyper.payload = path.payload;
        hyper.clip_norm = path.clip_norm;
        auto problem = problem::make_problem(problem::Algorithm::scape, path.workers, model_of(path),
                                             path.partition, hyper);
        const std::vector<float> start = initial_parameters(problem::DataClass::normal, 1, size_);
        for (Index kind = 0; kind < kinds; ++kind)
            for (Index i = 0; i < size_; ++i)
                gradients_.push_back(
                    gradient_value(problem::DataClass::normal, 1, inner.rank(), kind + 1, i));
        auto backend = make_host_backend(problem, start, path.threads);
        auto ranges = problem::ranges(problem.layout, path.workers, path.partition);
        optimizer_ = std::make_unique<Scape>(
            std::move(problem), std::move(ranges), problem::DensitySchedule::constant(path.density),
            std::move(backend), bytes_, Scape::Options{path.reduction, path.largest_piece});
    }

    void spoil() { spoilt_ = true; }

    void step(Index number) {
        const auto gradient = gradient_of(number);
        switch (path_.comes) {
        case Comes::at_once:
            return optimizer_->step(gradient, 0.01);
        case Comes::to_be_used_up:
            return optimizer_->step_using_up(next_, 0.01);
        case Comes::in_micro_batches:
            optimizer_->accumulate(gradient_of(number + 1));
            optimizer_->accumulate(gradient_of(number + 2));
            return optimizer_->step(gradient_of(number), 0.01);
        case Comes::in_buckets:
            for (std::size_t tensor = 5; tensor-- > 0;)
                optimizer_->bucket({&tensor, 1}, gradient);
            return optimizer_->step(gradient, 0.01);
        }
    }

  private:
    static constexpr Index kinds = 3;

    /// In the same place for each step.
    std::span<const float> gradient_of(Index number) {
        const float* const begin = gradients_.data() + number % kinds * size_;
        std::copy_n(begin, size_, next_.data());
        if (spoilt_)
            next_[1000] = std::numeric_limits<float>::quiet_NaN();
        spoilt_ = false;
        return next_;
    }

    Path path_;
    Index size_;
    AlignedFloats next_;
    std::vector<float> gradients_;
    bool spoilt_ = false;
    CountingCommunicator bytes_; ///< only for statistics
    std::unique_ptr<Scape> optimizer_;
};

constexpr Index uncounted = 2;
constexpr Index steps = 8;

/// The allocations of all ranks, from the third step on.
Allocations after_two_steps(const Path& path) {
    Allocations found;
    std::barrier<> all(path.workers);
    run_ranks(path.workers, [&](Communicator& communicator) {
        CountedRank rank(path, communicator);
        for (Index step = 1; step <= steps; ++step) {
            all.arrive_and_wait();
            if (step == uncounted + 1 && communicator.rank() == 0)
                count_allocations();
            all.arrive_and_wait();
            rank.step(step);
        }
        all.arrive_and_wait();
        if (communicator.rank() == 0)
            found = counted_allocations();
        all.arrive_and_wait();
    });
    return found;
}

class AllocationTest : public ::testing::TestWithParam<Path> {};

TEST_P(AllocationTest, NoneAfterTheSecondStep) {
    const Allocations found = after_two_steps(GetParam());
    std::printf("%s: %zu allocations in %d steps of %d ranks, the largest of %zu bytes\n",
                GetParam().name.c_str(), found.count, static_cast<int>(steps - uncounted),
                GetParam().workers, found.largest);
    EXPECT_EQ(found.count, 0U);
}

std::vector<Path> paths() {
    return {{.name = "one_rank", .workers = 1},
            {.name = "one_rank_of_a_large_model", .workers = 1, .embedding = 500'000},
            {.name = "one_rank_using_up", .workers = 1, .comes = Comes::to_be_used_up},
            {.name = "four_ranks"},
            {.name = "many_pieces", .largest_piece = 100},
            {.name = "dense", .density = 1.0},
            {.name = "by_tensor", .partition = problem::PartitionRule::by_tensor},
            {.name = "two_threads", .workers = 2, .threads = 2},
            {.name = "clipped", .clip_norm = 0.5},
            {.name = "using_up", .comes = Comes::to_be_used_up},
            {.name = "micro_batches", .comes = Comes::in_micro_batches},
            {.name = "buckets", .comes = Comes::in_buckets},
            {.name = "native", .reduction = Reduction::native},
            {.name = "native_buckets", .comes = Comes::in_buckets, .reduction = Reduction::native},
            {.name = "bf16", .payload = Payload::bf16},
            {.name = "bf16_buckets", .comes = Comes::in_buckets, .payload = Payload::bf16},
            {.name = "e5m2", .payload = Payload::e5m2},
            {.name = "e5m2_buckets", .comes = Comes::in_buckets, .payload = Payload::e5m2},
            {.name = "bf16_both", .payload = Payload::bf16_both},
            {.name = "e5m2_both_buckets", .comes = Comes::in_buckets, .payload = Payload::e5m2_both},
            {.name = "groups", .groups = {3, 1}},
            {.name = "groups_using_up", .comes = Comes::to_be_used_up, .groups = {2, 2}},
            {.name = "groups_in_buckets", .comes = Comes::in_buckets, .groups = {3, 1}},
            {.name = "groups_bf16", .groups = {1, 3}, .payload = Payload::bf16},
            {.name = "three_groups", .workers = 6, .groups = {3, 2, 1}}};
}

INSTANTIATE_TEST_SUITE_P(Paths, AllocationTest, ::testing::ValuesIn(paths()),
                         [](const auto& tested) { return tested.param.name; });

/// A step that one rank refuses: each rank allocates only its message; the next step is like any
/// other.
TEST(AllocationTest, OfARefusedStepTheMessageAlone) {
    for (const Comes comes : {Comes::at_once, Comes::to_be_used_up}) {
        const Path path{.name = "refused", .comes = comes};
        Allocations refused;
        Allocations after;
        std::barrier<> all(path.workers);
        run_ranks(path.workers, [&](Communicator& communicator) {
            CountedRank rank(path, communicator);
            const auto counted = [&](Allocations& found, Index step, bool spoils) {
                if (spoils && communicator.rank() == 1)
                    rank.spoil();
                all.arrive_and_wait();
                if (communicator.rank() == 0)
                    count_allocations();
                all.arrive_and_wait();
                try {
                    rank.step(step);
                    EXPECT_FALSE(spoils);
                } catch (const RefusedStep&) {
                    EXPECT_TRUE(spoils);
                }
                all.arrive_and_wait();
                if (communicator.rank() == 0)
                    found = counted_allocations();
                all.arrive_and_wait();
            };
            for (Index step = 1; step <= uncounted; ++step)
                rank.step(step);
            counted(refused, 3, true);
            counted(after, 3, false);
        });
        std::printf("refused: %zu allocations of 4 ranks, the largest of %zu bytes\n", refused.count,
                    refused.largest);
        EXPECT_LE(refused.count, 4U * 24);
        EXPECT_LE(refused.largest, 512U);
        EXPECT_EQ(after.count, 0U);
    }
}

} // namespace
} // namespace truestep::distributed::scape
