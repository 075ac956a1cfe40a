#pragma once

#include <truestep/gpu/block.hpp>
#include <truestep/problem/tunable.hpp>

// Prefix sums. All are of integers, so the order of adding does not matter.

namespace truestep::gpu {

/// The memory of a scan over the threads of a block: its warps' sums.
struct Scan {
    std::uint32_t warps[most_threads / warp_threads];
};

/// Calls take(thread, before, all) with the sum of value() of the threads before it, and of all of
/// them, which is below 2^32. Two phases: take() is called in the second.
template <class Block, class Value, class Take>
TRUESTEP_BLOCK void scan(Block& block, Scan& shared, const Value& value, const Take& take) {
    typename Block::template PerThread<std::uint32_t> in_warp(block);
    block.warp_scan(value, [&](int thread, std::uint32_t before, std::uint32_t all) {
        in_warp[thread] = before;
        if (thread % warp_threads == 0)
            shared.warps[thread / warp_threads] = all;
    });
    block.phase([&](int thread) {
        std::uint32_t before = in_warp[thread];
        std::uint32_t all = 0;
        TRUESTEP_UNROLL
        for (int warp = 0; warp < block.threads() / warp_threads; ++warp) {
            const std::uint32_t sum = shared.warps[warp];
            before += warp < thread / warp_threads ? sum : 0U;
            all += sum;
        }
        take(thread, before, all);
    });
}

/// The sum of value() of all threads, for each of them.
template <class Block, class Value>
TRUESTEP_BLOCK std::uint32_t sum_of(Block& block, Scan& shared, const Value& value) {
    std::uint32_t sum = 0;
    scan(block, shared, value, [&](int, std::uint32_t, std::uint32_t all) { sum = all; });
    return sum;
}

/// The sums of whole groups of counts, each below 2^32. One block a group.
struct GroupSums {
    static constexpr Index group = problem::tunable<Index>("counts_group");

    struct Arguments {
        const std::uint32_t* counts;
        std::uint32_t* sums;
    };
    using Shared = Scan;

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const std::uint32_t* const counts = a.counts + block.index() * group;
        const std::uint32_t sum = sum_of(block, shared, [&](int thread) {
            std::uint32_t mine = 0;
            TRUESTEP_UNROLL
            for (int i = 0; i < static_cast<int>(group) / block.threads(); ++i)
                mine += counts[thread + i * block.threads()];
            return mine;
        });
        block.phase([&](int thread) {
            if (thread == 0)
                a.sums[block.index()] = sum;
        });
    }
};

/// offsets[i] = counts[0] + ... + counts[i-1], for i = 0..size. A block does one group of counts
/// and adds the sums of the groups before it, so blocks never wait for each other.
struct Offsets {
    static constexpr Index group = GroupSums::group;
    static Index blocks(Index size) { return size == 0 ? 1 : (size + group - 1) / group; }

    struct Arguments {
        const std::uint32_t* counts;
        Index size;
        const std::uint32_t* sums; ///< of all groups but the last
        Index* offsets;
    };
    using Shared = Scan;

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Index begin = block.index() * group;
        const int size = static_cast<int>(least(group, a.size - begin));
        const int share = static_cast<int>(group) / block.threads();
        typename Block::template PerSweep<std::uint32_t, group> counts(block);
        typename Block::template PerThread<Index> base(block);
        scan(
            block, shared,
            [&](int thread) {
                std::uint32_t mine = 0;
                TRUESTEP_UNROLL
                for (int i = 0; i < block.worth_doing(share, size - thread * share); ++i) {
                    const int at = thread * share + i;
                    counts(thread, i) = at < size ? a.counts[begin + at] : 0U;
                    mine += counts(thread, i);
                }
                // There are few sums, and all threads read the same addresses.
                base[thread] = 0;
                for (Index i = 0; i < block.index(); ++i)
                    base[thread] += a.sums[i];
                return mine;
            },
            [&](int thread, std::uint32_t before, std::uint32_t all) {
                Index sum = base[thread] + before;
                TRUESTEP_UNROLL
                for (int i = 0; i < block.worth_doing(share, size - thread * share); ++i) {
                    const int at = thread * share + i;
                    if (at < size)
                        a.offsets[begin + at] = sum;
                    sum += counts(thread, i);
                }
                if (thread == 0 && begin + size == a.size)
                    a.offsets[a.size] = base[thread] + all;
            });
    }
};

/// The launches of Offsets over a machine, and the memory between them.
template <class Machine>
class OffsetsOf {
  public:
    void run(Machine& machine, const std::uint32_t* counts, Index size, Index* offsets) {
        const Index blocks = Offsets::blocks(size);
        machine.resize(sums_, blocks - 1);
        machine.template run<GroupSums>(blocks - 1, {counts, sums_.data()});
        machine.template run<Offsets>(blocks, {counts, size, sums_.data(), offsets});
    }

  private:
    typename Machine::template Vector<std::uint32_t> sums_;
};

} // namespace truestep::gpu
