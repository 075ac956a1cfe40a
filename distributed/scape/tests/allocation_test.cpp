// What a step allocates, once there is room for everything: nothing that grows with the model. A program of
// its own, for it replaces the global operator new.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "sharded_support.hpp"

namespace {

std::atomic<std::size_t> largest{0};
std::atomic<std::size_t> count{0};

void* counted(std::size_t size) {
    ++count;
    for (std::size_t before = largest; size > before && !largest.compare_exchange_weak(before, size);) {
    }
    if (void* const place = std::malloc(size > 0 ? size : 1))
        return place;
    throw std::bad_alloc();
}

} // namespace

void* operator new(std::size_t size) {
    return counted(size);
}
void* operator new[](std::size_t size) {
    return counted(size);
}
void operator delete(void* place) noexcept {
    std::free(place);
}
void operator delete[](void* place) noexcept {
    std::free(place);
}
void operator delete(void* place, std::size_t) noexcept {
    std::free(place);
}
void operator delete[](void* place, std::size_t) noexcept {
    std::free(place);
}

namespace scape::distributed {
namespace {

/// The largest allocation of all ranks in the third step and after.
std::size_t largest_after_two_steps(int workers, const problem::Groups& groups, Index size) {
    problem::HyperParameters hyper;
    hyper.groups = groups;
    const auto setting = make_setting(workers, 0.01, problem::PartitionRule::by_shard, hyper,
                                      problem::Layout({{"all", size, false}}));
    std::size_t found = 0;
    run_ranks(workers, [&](Communicator& inner) {
        Rank rank(inner, setting);
        const auto gradient = rank.gradient(1);
        for (Index step = 1; step <= 5; ++step) {
            static_cast<void>(gather_records(inner, step));
            if (step == 3 && inner.rank() == 0)
                largest = 0;
            static_cast<void>(gather_records(inner, step));
            rank.optimizer().step(gradient, 0.01);
        }
        static_cast<void>(rank.optimizer().coming_mask());
        static_cast<void>(gather_records(inner, Index{0}));
        if (inner.rank() == 0)
            found = largest;
    });
    return found;
}

TEST(AllocationTest, NothingThatGrowsWithTheModelAfterTheSecondStep) {
    for (const auto& [workers, groups] :
         {std::pair<int, problem::Groups>{1, {}}, {4, {}}, {4, {3, 1}}, {6, {3, 2, 1}}}) {
        const std::size_t small = largest_after_two_steps(workers, groups, 100'000);
        const std::size_t large = largest_after_two_steps(workers, groups, 400'000);
        EXPECT_LT(large, 4096U) << workers << " ranks in groups of " << problem::groups_text(groups);
        EXPECT_EQ(small, large) << workers << " ranks in groups of " << problem::groups_text(groups);
    }
}

} // namespace
} // namespace scape::distributed
