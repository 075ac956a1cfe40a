#pragma once

#include <truestep/distributed/element.hpp>

#include "mask.hpp"

// Values that ranks exchange: the mean of received values, and payloads that travel rounded
// (section 21).

namespace truestep::gpu::scape {

using distributed::Scalars;

/// Section 4.4: (((c_0 + c_1) + ...) / P; part r begins at parts + r*count. With one part it only
/// divides. One block a tile of the packed vector.
template <class Parts>
struct FoldWith {
    struct Arguments {
        float divisor;
        int parts_count;
        Index count;
        Parts parts;
        float* mean;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        const Index begin = block.index() * tile;
        const Index end = least(begin + tile, a.count);
        constexpr int in_flight = 4;
        block.phase([&](int thread) {
            for (Index first = begin + thread; first < end; first += in_flight * block.threads()) {
                float sum[in_flight]{};
                TRUESTEP_UNROLL
                for (int i = 0; i < in_flight; ++i)
                    if (first + i * block.threads() < end)
                        sum[i] = a.parts[first + i * block.threads()];
                for (int part = 1; part < a.parts_count; ++part) {
                    const Parts values = a.parts + part * a.count;
                    TRUESTEP_UNROLL
                    for (int i = 0; i < in_flight; ++i)
                        if (first + i * block.threads() < end)
                            sum[i] = sum[i] + values[first + i * block.threads()];
                }
                TRUESTEP_UNROLL
                for (int i = 0; i < in_flight; ++i)
                    if (first + i * block.threads() < end)
                        a.mean[first + i * block.threads()] = sum[i] / a.divisor;
            }
        });
    }
};
struct Fold : FoldWith<const float*> {};

/// How values travel. All threads of a launch use the same format, so a branch on it does not
/// diverge.
enum class Format : std::uint8_t { fp32, bf16, e5m2 };
struct Coding {
    Format format;
    distributed::element::E5m2Scale scale; ///< of e5m2
};

/// The value at place `at` of the rounded payload.
TRUESTEP_BLOCK float read_rounded(const Coding& coding, const void* sent, Index at) {
    if (coding.format == Format::bf16)
        return distributed::element::from_bf16(static_cast<const std::uint16_t*>(sent)[at]);
    return distributed::element::from_e5m2(coding.scale, static_cast<const std::uint8_t*>(sent)[at]);
}
TRUESTEP_BLOCK float read(const Coding& coding, const void* sent, Index at) {
    return coding.format == Format::fp32 ? static_cast<const float*>(sent)[at]
                                         : read_rounded(coding, sent, at);
}

/// Rounded values as they have travelled, from place `at` on.
struct RoundedValues {
    Coding coding;
    const void* sent;
    Index at;

    TRUESTEP_BLOCK float operator[](Index number) const { return read_rounded(coding, sent, at + number); }
    TRUESTEP_BLOCK RoundedValues operator+(Index count) const { return {coding, sent, at + count}; }
};
struct FoldTravelled : FoldWith<RoundedValues> {};

/// The rounding of section 21.
struct Rounding {
    TRUESTEP_BLOCK static std::uint16_t to_bf16(float c) { return distributed::element::to_bf16(c); }
    TRUESTEP_BLOCK static std::uint8_t to_e5m2(const Coding& coding, float c) {
        return distributed::element::to_e5m2(coding.scale, c);
    }
    /// The part that stays in the residual.
    TRUESTEP_BLOCK static float rest(float c, float p) { return c - p; }
};

/// Writes c as it travels; returns the value that this stands for.
template <class Rounding>
TRUESTEP_BLOCK float write(const Coding& coding, void* sent, Index at, float c) {
    if (coding.format == Format::bf16) {
        const std::uint16_t bits = Rounding::to_bf16(c);
        static_cast<std::uint16_t*>(sent)[at] = bits;
        return distributed::element::from_bf16(bits);
    }
    const std::uint8_t bits = Rounding::to_e5m2(coding, c);
    static_cast<std::uint8_t*>(sent)[at] = bits;
    return distributed::element::from_e5m2(coding.scale, bits);
}

struct RoundPayloadArguments {
    Coding coding;
    Index size;
    MaskView current;
    float* payload;
    void* sent;
    float* e;
};

/// Writes the payload as it travels, replaces it by the rounded values, and puts the rest into e.
/// One block a tile.
template <class Rounding>
struct RoundPayloadWith {
    using Arguments = RoundPayloadArguments;
    using Shared = SelectedOfTile;

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        over_selected(block, shared, a.current, block.index(), a.size, [&](Index at, Index packed) {
            const float c = a.payload[packed];
            const float p = write<Rounding>(a.coding, a.sent, packed, c);
            a.payload[packed] = p;
            a.e[at] = Rounding::rest(c, p);
        });
    }
};
struct RoundPayload : RoundPayloadWith<Rounding> {};

/// Writes packed values as they travel, and leaves them unchanged. One block a tile of them.
struct WriteRounded {
    struct Arguments {
        Coding coding;
        Index count;
        const float* values;
        void* sent;
    };
    struct Shared {};

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared&, const Arguments& a) {
        over_tile(block, a.count, [&](Index at) {
            static_cast<void>(write<Rounding>(a.coding, a.sent, at, a.values[at]));
        });
    }
};

/// Puts received means to their places in M, and adds to e what rounding has taken of this rank's
/// own, times P. One block a tile, from that of the first coordinate on.
struct TakeMeans {
    struct Arguments {
        Coding coding;
        Index size;
        Index begin; ///< the coordinates whose means were received
        Index end;
        Index first; ///< where their means begin among the received ones
        Index own_begin;
        Index own_end;
        float workers;
        MaskView current;
        const void* came;
        const float* made; ///< this rank's means before rounding, in the same places
        float* moment;
        float* e;
    };
    using Shared = SelectedOfTile;

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Index skipped = before(a.current, a.begin) - a.first;
        over_selected(block, shared, a.current, a.begin / tile + block.index(), a.size,
                      [&](Index at, Index packed) {
                          if (at < a.begin || at >= a.end)
                              return;
                          const float mean = read(a.coding, a.came, packed - skipped);
                          if (at >= a.own_begin && at < a.own_end)
                              a.e[at] = a.e[at] + ((a.made[packed - skipped] - mean) * a.workers);
                          a.moment[packed] = mean;
                      });
    }
};

/// The greatest score of packed values. One block a tile of them.
struct GreatestScore {
    struct Arguments {
        Index count;
        const float* values;
        Index* less_greatest; ///< negated, 0 before
    };
    struct Shared {
        Index less_greatest;
    };

    template <class Block>
    TRUESTEP_BLOCK static void run(Block& block, Shared& shared, const Arguments& a) {
        const Index begin = block.index() * tile;
        const Index end = least(begin + tile, a.count);
        block.phase([&](int thread) {
            if (thread == 0)
                shared.less_greatest = 0;
        });
        block.phase([&](int thread) {
            std::uint32_t mine = 0;
            for (Index at = begin + thread; at < end; at += block.threads())
                mine = greatest(mine, distributed::element::score(a.values[at]));
            block.lower(shared.less_greatest, -Index{mine});
        });
        block.phase([&](int thread) {
            if (thread == 0)
                block.lower(*a.less_greatest, shared.less_greatest);
        });
    }
};

} // namespace truestep::gpu::scape
