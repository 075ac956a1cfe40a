#pragma once

#include <scape/gpu/block.hpp>
#include <scape/problem/tunable.hpp>

// Sums over what comes before. All of integers, so that no order of adding shows.

namespace scape::gpu {

/// The memory of one scan over the threads of a block.
template <class T>
struct Scan {
    T values[2][most_threads];
    T total;
};

/// before[thread] = the sum of mine[] of the threads before it; shared.total = the sum of all.
template <class T, class Block, class PerThread>
SCAPE_BLOCK void scan(Block& block, Scan<T>& shared, PerThread& mine, PerThread& before) {
    block.phase([&](int thread) { shared.values[0][thread] = mine[thread]; });
    int side = 0;
    for (int reach = 1; reach < block.threads(); reach *= 2, side = 1 - side)
        block.phase([&](int thread) {
            const T value = shared.values[side][thread];
            shared.values[1 - side][thread] =
                thread >= reach ? value + shared.values[side][thread - reach] : value;
        });
    block.phase([&](int thread) {
        before[thread] = shared.values[side][thread] - mine[thread];
        if (thread == block.threads() - 1)
            shared.total = shared.values[side][thread];
    });
}

/// offsets[i] = counts[0] + ... + counts[i-1], for i = 0..size. A block does one group of counts, and adds
/// up by itself what comes before it: that is read from the cache, and no block waits for another.
struct Offsets {
    static constexpr Index group = problem::tunable<Index>(4096, 64);
    static Index blocks(Index size) { return size == 0 ? 1 : (size + group - 1) / group; }

    struct Arguments {
        const std::uint32_t* counts;
        Index size;
        Index* offsets;
    };
    struct Shared {
        Scan<Index> scan;
        Index base;
    };

    template <class Block>
    SCAPE_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Index begin = block.index() * group;
        const Index end = least(begin + group, a.size);
        const Index share = group / block.threads();
        typename Block::template PerThread<Index> mine(block);
        typename Block::template PerThread<Index> before(block);
        block.phase([&](int thread) {
            mine[thread] = 0;
            for (Index i = thread; i < begin; i += block.threads())
                mine[thread] += a.counts[i];
        });
        scan(block, shared.scan, mine, before);
        block.phase([&](int thread) {
            if (thread == 0)
                shared.base = shared.scan.total;
            mine[thread] = 0;
            const Index first = begin + thread * share;
            for (Index i = first; i < least(first + share, end); ++i)
                mine[thread] += a.counts[i];
        });
        scan(block, shared.scan, mine, before);
        block.phase([&](int thread) {
            Index sum = shared.base + before[thread];
            const Index first = begin + thread * share;
            for (Index i = first; i < least(first + share, end); ++i) {
                a.offsets[i] = sum;
                sum += a.counts[i];
            }
            if (thread == 0 && end == a.size)
                a.offsets[a.size] = shared.base + shared.scan.total;
        });
    }
};

} // namespace scape::gpu
