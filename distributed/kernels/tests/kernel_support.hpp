#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <truestep/distributed/kernels.hpp>

namespace truestep::distributed::host {

/// Floats directly before a page that must not be touched: a kernel that reads or writes beyond
/// them dies, whichever instruction it uses.
class Guarded {
  public:
    explicit Guarded(Index size) : size_(size) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(float);
        length_ = (bytes + page - 1) / page * page + page;
        memory_ = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory_ == MAP_FAILED || mprotect(at(length_ - page), page, PROT_NONE) != 0)
            throw std::runtime_error("no memory");
        data_ = static_cast<float*>(at(length_ - page - bytes));
    }
    explicit Guarded(const std::vector<float>& values) : Guarded(static_cast<Index>(values.size())) {
        if (!values.empty())
            std::memcpy(data_, values.data(), values.size() * sizeof(float));
    }
    Guarded(const Guarded&) = delete;
    Guarded& operator=(const Guarded&) = delete;
    Guarded(Guarded&&) = delete;
    Guarded& operator=(Guarded&&) = delete;
    ~Guarded() { munmap(memory_, length_); }

    [[nodiscard]] float* data() { return data_; }
    [[nodiscard]] const float* data() const { return data_; }
    [[nodiscard]] Index size() const { return size_; }

  private:
    void* at(std::size_t offset) { return static_cast<char*>(memory_) + offset; }

    Index size_;
    std::size_t length_ = 0;
    void* memory_ = nullptr;
    float* data_ = nullptr;
};

/// The bits that a test compares: every bit counts.
inline std::vector<std::uint32_t> bits(const float* values, Index size) {
    std::vector<std::uint32_t> result;
    for (Index i = 0; i < size; ++i)
        result.push_back(std::bit_cast<std::uint32_t>(values[i]));
    return result;
}
inline std::vector<std::uint32_t> bits(const std::vector<float>& values) {
    return bits(values.data(), static_cast<Index>(values.size()));
}
inline std::vector<std::uint32_t> bits(const Guarded& values) {
    return bits(values.data(), values.size());
}

/// Half of the values are ordinary; the others are zeros of both signs, subnormals, a few
/// magnitudes many times, and large ones.
inline std::vector<float> values(std::mt19937_64& generator, Index size) {
    std::normal_distribution<float> normal(0.0F, 1.0F);
    const std::vector<float> special{0.0F,       0x1p-149F, 0x1.8p-140F, 0x1p-126F,       0x1.fffffep-127F,
                                     1.0F,       0.5F,      0x1p56F,     0x1.fffffep+55F, 1e-20F,
                                     3.0e-39F,   0.1F,      1e10F,       0x1.0p-100F,     0x1.000002p0F,
                                     0x1.8p-24F, 0.0F};
    std::vector<float> result;
    for (Index i = 0; i < size; ++i) {
        const std::uint64_t random = generator();
        float value = random % 2 == 0 ? normal(generator) : special[(random >> 8U) % special.size()];
        if ((random >> 40U) % 2 == 0)
            value = -value;
        result.push_back(value);
    }
    return result;
}

inline Mask random_mask(std::mt19937_64& generator, Index size, double density) {
    Mask mask(size);
    std::bernoulli_distribution chosen(density);
    for (Index i = 0; i < size; ++i)
        if (chosen(generator))
            mask.set(i);
    mask.count();
    return mask;
}

inline std::vector<Index> coordinates(const Mask& mask) {
    std::vector<Index> result;
    for (Index i = 0; i < mask.size(); ++i)
        if (mask.test(i))
            result.push_back(i);
    return result;
}

inline Scalars scalars() {
    Scalars s;
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

/// Runs the test with each instruction set that the machine has.
class EachVariant : public ::testing::TestWithParam<Variant> {
  protected:
    void SetUp() override { use_variant(GetParam()); }
    void TearDown() override { use_variant(supported_variants().back()); }
};

inline std::string variant_name(const ::testing::TestParamInfo<Variant>& info) {
    return std::string(name(info.param));
}

constexpr Index sizes[] = {0, 1, 15, 16, 17, 63, 64, 65, 127, 4095, 4096, 4097, 8192, 10000};
constexpr double densities[] = {0.0, 0.001, 0.01, 0.1, 0.5, 1.0};

} // namespace truestep::distributed::host
