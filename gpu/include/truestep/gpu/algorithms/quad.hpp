#pragma once

#include <cstring>

#include <truestep/gpu/block.hpp>
#include <truestep/problem/tunable.hpp>

// Loads and stores of four neighbouring values at a time: 16 bytes where the vector is aligned, one
// by one where it is not and behind the last whole four.

namespace truestep::gpu {

constexpr Index quad_size = 4;
/// Quads that a thread loads at once.
constexpr int quads_in_flight = problem::tunable<int>("quads_in_flight");

struct alignas(16) Quad {
    float value[quad_size];
};

TRUESTEP_BLOCK bool is_aligned(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % alignof(Quad) == 0;
}

/// Four values that all exist and are aligned.
TRUESTEP_BLOCK Quad load_whole(const float* values) {
    Quad quad;
#if defined(__CUDACC__)
    const float4 four = *reinterpret_cast<const float4*>(values);
    quad = {{four.x, four.y, four.z, four.w}};
#else
    std::memcpy(&quad, values, sizeof quad);
#endif
    return quad;
}
TRUESTEP_BLOCK void store_whole(float* values, const Quad& quad) {
#if defined(__CUDACC__)
    *reinterpret_cast<float4*>(values) =
        make_float4(quad.value[0], quad.value[1], quad.value[2], quad.value[3]);
#else
    std::memcpy(values, &quad, sizeof quad);
#endif
}

/// The values at `at`, up to `size`; 0 behind it.
TRUESTEP_BLOCK Quad load(const float* values, Index at, Index size, bool aligned) {
    Quad quad{};
    if (at + quad_size <= size && aligned) {
        quad = load_whole(values + at);
    } else {
        TRUESTEP_UNROLL
        for (Index i = 0; i < quad_size; ++i)
            if (at + i < size)
                quad.value[i] = values[at + i];
    }
    return quad;
}

TRUESTEP_BLOCK void store(float* values, Index at, Index size, bool aligned, const Quad& quad) {
    if (at + quad_size <= size && aligned) {
        store_whole(values + at, quad);
    } else {
        TRUESTEP_UNROLL
        for (Index i = 0; i < quad_size; ++i)
            if (at + i < size)
                values[at + i] = quad.value[i];
    }
}

/// The same within a tile. `Whole`: all quads are whole and aligned.
template <bool Whole>
TRUESTEP_BLOCK Quad load_in_tile(const float* values, int at, int size, bool aligned) {
    return Whole ? load_whole(values + at) : load(values, at, size, aligned);
}
template <bool Whole>
TRUESTEP_BLOCK void store_in_tile(float* values, int at, int size, bool aligned, const Quad& quad) {
    if (Whole)
        store_whole(values + at, quad);
    else
        store(values, at, size, aligned, quad);
}

/// Quads of a tile, and the place of a thread's in it.
constexpr Index tile_quads = tile / quad_size;
template <class Block>
TRUESTEP_BLOCK int quads_of_thread(const Block& block) {
    return static_cast<int>(tile_quads) / block.threads();
}
template <class Block>
TRUESTEP_BLOCK int place_of_quad(const Block& block, int thread, int number) {
    return static_cast<int>(quad_size) * (thread + number * block.threads());
}

/// Calls load(number, at) for a few quads of [begin, end), then use(number, at) for the same ones,
/// so that their loads overlap. `begin` is a multiple of four.
template <class Block, class Load, class Use>
TRUESTEP_BLOCK void for_quads(const Block& block, int thread, Index begin, Index end, const Load& load_quad,
                              const Use& use_quad) {
    const Index stride = quad_size * block.threads();
    for (Index first = begin + quad_size * thread; first < end; first += stride * quads_in_flight) {
        TRUESTEP_UNROLL
        for (int number = 0; number < quads_in_flight; ++number)
            if (first + number * stride < end)
                load_quad(number, first + number * stride);
        TRUESTEP_UNROLL
        for (int number = 0; number < quads_in_flight; ++number)
            if (first + number * stride < end)
                use_quad(number, first + number * stride);
    }
}

/// The bits of four neighbours.
TRUESTEP_BLOCK unsigned four_bits(std::uint64_t word, Index at) {
    return static_cast<unsigned>(word >> static_cast<unsigned>(at % word_bits)) & 15U;
}

} // namespace truestep::gpu
