// What a step allocates, once there is room for everything: nothing that grows with the model. A program of
// its own, for it replaces the global operator new.
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

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

struct Allocations {
    std::size_t largest; ///< bytes
    double of_a_rank;    ///< and step
};

/// Of all ranks in the third step and after.
Allocations after_two_steps(int workers, const problem::Groups& groups, Index size) {
    constexpr Index steps = 6;
    problem::HyperParameters hyper;
    hyper.groups = groups;
    const auto setting = make_setting(workers, 0.01, problem::PartitionRule::by_shard, hyper,
                                      problem::Layout({{"all", size, false}}));
    Allocations found{};
    run_ranks(workers, [&](Communicator& inner) {
        Rank rank(inner, setting);
        const auto gradient = rank.gradient(1);
        for (Index step = 1; step <= steps; ++step) {
            static_cast<void>(gather_records(inner, step));
            if (step == 3 && inner.rank() == 0)
                largest = count = 0;
            static_cast<void>(gather_records(inner, step));
            rank.optimizer().step(gradient, 0.01);
        }
        static_cast<void>(rank.optimizer().coming_mask());
        static_cast<void>(gather_records(inner, Index{0}));
        if (inner.rank() == 0)
            found = {largest, static_cast<double>(count) / workers / (steps - 2)};
    });
    return found;
}

/// Lists of sizes, exchanges and candidates are made anew at each step, and no vector of the model's.
TEST(AllocationTest, NothingOfTheModelsSizeIsMadeAfterTheSecondStep) {
    for (const auto& [workers, groups] :
         {std::pair<int, problem::Groups>{1, {}}, {4, {}}, {4, {3, 1}}, {6, {3, 2, 1}}}) {
        constexpr Index size = 800'000;
        const Allocations found = after_two_steps(workers, groups, size);
        // A shard's candidates; who owns all of the model has all of them.
        const std::size_t limit = size * sizeof(float) / 10 / static_cast<std::size_t>(workers);
        EXPECT_LT(found.largest, limit)
            << workers << " ranks in groups of " << problem::groups_text(groups);
        std::printf("%d ranks, groups %s: largest %zu bytes, %.0f allocations a rank and step\n", workers,
                    problem::groups_text(groups).c_str(), found.largest, found.of_a_rank);
    }
}

} // namespace
} // namespace scape::distributed
