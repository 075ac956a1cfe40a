#pragma once

// Drawn data for the tests of blocks and their backend, and the ways in which blocks run.

#include <bit>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/element.hpp>
#include <truestep/distributed/mask.hpp>
#include <truestep/gpu/block.hpp>

namespace truestep::gpu::scape {

using distributed::Mask;

struct Way {
    int threads;
    std::uint64_t seed;
    Index group_tiles;
};
constexpr Way ways[] = {{256, 1, 0}, {256, 2, 3}, {32, 3, 1}, {128, 4, 16}, {1024, 5, 2}};

inline std::vector<std::uint32_t> bits(const float* values, Index size) {
    std::vector<std::uint32_t> result;
    for (Index i = 0; i < size; ++i)
        result.push_back(std::bit_cast<std::uint32_t>(values[i]));
    return result;
}
inline std::vector<std::uint32_t> bits(std::span<const float> values) {
    return bits(values.data(), static_cast<Index>(values.size()));
}
inline std::vector<std::uint64_t> bits(const Mask& mask) {
    return {mask.words(), mask.words() + mask.word_count()};
}

inline float normal(std::mt19937_64& random) {
    return std::normal_distribution<float>(0.0F, 1.0F)(random);
}

/// A distribution for a step's gradient; `scale` jumps from step to step, so that thresholds do.
struct Data {
    std::string name;
    float (*value)(std::mt19937_64& random, Index index);
};
inline const std::vector<Data>& all_data() {
    static const std::vector<Data> all{
        {"normal", [](std::mt19937_64& random, Index) { return normal(random); }},
        {"equal", [](std::mt19937_64& random, Index) { return random() % 2 == 0 ? 0.3F : -0.3F; }},
        {"zero", [](std::mt19937_64& random, Index) { return random() % 2 == 0 ? 0.0F : -0.0F; }},
        {"few magnitudes",
         [](std::mt19937_64& random, Index) {
             const auto value = static_cast<float>(random() % 5);
             return random() % 2 == 0 ? value : -value;
         }},
        {"subnormal",
         [](std::mt19937_64& random, Index) {
             return std::bit_cast<float>(static_cast<std::uint32_t>(random() % 0x0080'0000U));
         }},
        {"wide",
         [](std::mt19937_64& random, Index) {
             return std::bit_cast<float>(static_cast<std::uint32_t>(random() % 0x5b80'0000U));
         }},
        {"one bin",
         [](std::mt19937_64& random, Index) {
             return std::bit_cast<float>(0x3f80'0000U + static_cast<std::uint32_t>(random() % 100));
         }},
        {"clustered", [](std::mt19937_64& random, Index index) {
             return index / 1000 % 7 == 0 ? 1.0F + 0.001F * normal(random) : 0.01F * normal(random);
         }}};
    return all;
}

inline std::vector<float> draw(const Data& data, std::mt19937_64& random, Index size, float scale = 1.0F) {
    std::vector<float> result;
    for (Index i = 0; i < size; ++i)
        result.push_back(data.value(random, i) * scale);
    return result;
}

inline Mask random_mask(std::mt19937_64& random, Index size, double density) {
    Mask mask(size);
    std::bernoulli_distribution chosen(density);
    for (Index i = 0; i < size; ++i)
        if (chosen(random))
            mask.set(i);
    mask.count();
    return mask;
}

inline distributed::Scalars scalars() {
    distributed::Scalars s;
    s.b1 = 0.9F;
    s.a1 = 0.1F;
    s.b2 = 0.95F;
    s.a2 = 0.05F;
    s.epsilon = 1e-8F;
    s.learning_rate = 1e-3F;
    s.decay = 0.9999F;
    s.inv1 = 1.0F / 0.271F;
    s.invs2 = 1.5F;
    s.workers = 3.0F;
    return s;
}

constexpr double densities[] = {0.0, 0.01, 0.1, 0.5, 1.0};

inline std::string way_name(const testing::TestParamInfo<Way>& info) {
    return std::to_string(info.param.threads) + "threads" + std::to_string(info.param.group_tiles) +
           "tiles";
}

} // namespace truestep::gpu::scape
