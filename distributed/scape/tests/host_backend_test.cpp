// Tests the host's backend against its documented calls, where whole runs would not reach: masks
// that move far.
#include <truestep/distributed/scape/host_backend.hpp>

#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernel_support.hpp"
#include "reusable_buffer.hpp"
#include "rounded_payload.hpp"

namespace truestep::distributed::scape {
namespace {

constexpr Index size = 5 * Mask::chunk + 100;

problem::Problem made_up_problem() {
    return problem::make_problem(problem::Algorithm::scape, 1, problem::Layout({{"all", size, false}}),
                                 problem::PartitionRule::by_shard, {});
}

Mask mask_of(const std::vector<std::pair<Index, Index>>& ranges) {
    Mask mask(size);
    for (const auto& [begin, end] : ranges)
        mask.set_range(begin, end);
    mask.count();
    return mask;
}

/// Values move left, right, both, by more than a chunk, and grow and shrink.
std::map<std::string, Mask> masks() {
    std::mt19937_64 generator(3);
    std::map<std::string, Mask> result;
    result.emplace("none", mask_of({}));
    result.emplace("all", mask_of({{0, size}}));
    result.emplace("front", mask_of({{0, 2 * Mask::chunk + 7}}));
    result.emplace("back", mask_of({{size - 2 * Mask::chunk - 7, size}}));
    result.emplace("middle", mask_of({{2 * Mask::chunk - 50, 3 * Mask::chunk + 50}}));
    result.emplace("ends", mask_of({{0, 999}, {size - 999, size}}));
    result.emplace("steps", mask_of({{10, 20},
                                     {Mask::chunk, Mask::chunk + 3000},
                                     {2 * Mask::chunk, 2 * Mask::chunk + 5},
                                     {3 * Mask::chunk + 9, 5 * Mask::chunk}}));
    result.emplace("few", host::random_mask(generator, size, 0.01));
    result.emplace("many", host::random_mask(generator, size, 0.5));
    return result;
}

TEST(HostBackend, MovesTheMomentBetweenAnyTwoMasks) {
    std::mt19937_64 generator(9);
    const auto all = masks();
    const auto backend =
        make_host_backend(made_up_problem(), std::vector<float>(static_cast<std::size_t>(size), 1.0F));
    const std::vector<float> w(static_cast<std::size_t>(size), 1.0F);
    const std::vector<float> g = host::values(generator, size);
    for (const auto& [last_name, last] : all)
        for (const auto& [name, current] : all) {
            SCOPED_TRACE("from " + last_name + " to " + name);
            const std::vector<float> m = host::values(generator, last.selected());
            const std::vector<float> e = host::values(generator, size);
            std::vector<float> expected_m;
            std::vector<float> expected_c;
            std::size_t at = 0;
            for (Index i = 0; i < size; ++i) {
                const float value = last.test(i) ? m[at++] : 0.0F;
                if (!current.test(i))
                    continue;
                const auto index = static_cast<std::size_t>(i);
                expected_m.push_back(value);
                expected_c.push_back(element::local(host::scalars(), value, g[index], e[index]));
            }
            backend->restore(w, e, m, last, current);
            backend->advance_mask();
            backend->local_pass(host::scalars(), g.data());
            const auto moved = backend->packed_moment();
            ASSERT_EQ(host::bits(moved.data(), static_cast<Index>(moved.size())), host::bits(expected_m));
            ASSERT_EQ(host::bits(backend->payload(), current.selected()), host::bits(expected_c));
        }
}

/// A step reuses the room of the one before; one that needs less than half of it frees the surplus.
TEST(Rooms, AreKeptUntilTheyAreMuchTooLarge) {
    ReusableBuffer<std::vector<float>> room;
    const float* const first = room.make(1000);
    room.end_step();
    EXPECT_EQ(room.make(600), first);
    static_cast<void>(room.make(100));
    room.end_step();
    EXPECT_EQ(room.make(499), first);
    room.end_step();
    EXPECT_EQ(room.size(), 499U);

    std::vector<float> vector;
    make_room(vector, 1000);
    make_room(vector, 600);
    EXPECT_GE(vector.capacity(), 1000U);
    make_room(vector, 400);
    EXPECT_EQ(vector.size(), 400U);
    EXPECT_LT(vector.capacity(), 1000U);
}

} // namespace
} // namespace truestep::distributed::scape
