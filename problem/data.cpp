#include <scape/problem/data.hpp>

#include <array>
#include <cmath>
#include <utility>

#include <scape/problem/error.hpp>

namespace scape::problem {

namespace {

constexpr std::array<std::pair<DataClass, std::string_view>, 8> names{{
    {DataClass::normal, "normal"},
    {DataClass::dyadic, "dyadic"},
    {DataClass::ties, "ties"},
    {DataClass::sparse, "sparse"},
    {DataClass::subnormal, "subnormal"},
    {DataClass::wide, "wide"},
    {DataClass::zeros, "zeros"},
    {DataClass::limit, "limit"},
}};

/// What a number is drawn for, so that no two draws share their bits.
enum class Stream : std::uint64_t { shared, own, scale, zero, parameter };

constexpr int no_rank = -1;

/// The finalizer of splitmix64: every bit of the input changes half the bits of the output.
std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e37'79b9'7f4a'7c15U;
    x = (x ^ (x >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d0'49bb'1331'11ebU;
    return x ^ (x >> 31U);
}

std::uint64_t draw(Stream stream, std::uint64_t seed, int rank, Index step, Index index) {
    std::uint64_t x = mixed(seed);
    for (const std::uint64_t part : {static_cast<std::uint64_t>(stream), static_cast<std::uint64_t>(rank),
                                     static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(index)})
        x = mixed(x ^ part);
    return x;
}

/// The sum of four uniform 16-bit numbers, centred: a bell of deviation 37837, exact in 18 bits.
int bell(std::uint64_t bits) {
    constexpr int centre = 2 * 65535;
    int sum = -centre;
    for (int part = 0; part < 4; ++part, bits >>= 16U)
        sum += static_cast<int>(bits & 0xffffU);
    return sum;
}

float normal(std::uint64_t seed, int rank, Index step, Index index, int exponent) {
    const int sum = bell(draw(Stream::shared, seed, no_rank, step, index)) +
                    bell(draw(Stream::own, seed, rank, step, index));
    return std::ldexp(static_cast<float>(sum), exponent);
}

} // namespace

std::string name(DataClass kind) {
    return std::string(names[static_cast<std::size_t>(kind)].second);
}

DataClass parse_data_class(const std::string& text) {
    for (const auto& [kind, name] : names)
        if (name == text)
            return kind;
    throw Error("--data is '" + text + "'; it must be one of " + data_class_names());
}

std::string data_class_names() {
    std::string all;
    for (const auto& [kind, name] : names)
        all += (all.empty() ? "" : ", ") + std::string(name);
    return all;
}

float gradient_value(DataClass kind, std::uint64_t seed, int rank, Index step, Index index) {
    const std::uint64_t own = draw(Stream::own, seed, rank, step, index);
    const std::uint64_t scale = draw(Stream::scale, seed, no_rank, 0, index);
    const int near_one = -16 - static_cast<int>(scale % 5); // a bell of deviation 1, down to 1/16
    switch (kind) {
    case DataClass::normal:
        return normal(seed, rank, step, index, near_one);
    case DataClass::dyadic:
        return std::ldexp(static_cast<float>(static_cast<int>(own % 65) - 32), -6);
    case DataClass::ties: {
        constexpr std::array<float, 8> values{1.0F, -1.0F, 1.0F, -1.0F, 0.5F, -0.5F, 0.0F, -0.0F};
        return values[own % values.size()];
    }
    case DataClass::sparse:
        return draw(Stream::zero, seed, rank, step, index) % 10 != 0
                   ? 0.0F
                   : normal(seed, rank, step, index, near_one);
    case DataClass::subnormal:
        return normal(seed, rank, step, index, near_one - 126);
    case DataClass::wide:
        return normal(seed, rank, step, index, -76 + static_cast<int>(scale % 101));
    case DataClass::zeros: {
        constexpr std::array<float, 8> values{0.0F, -0.0F, 0.0F, -0.0F, 0.0F, -0.0F, 0x1p-20F, -0x1p-20F};
        return values[own % values.size()];
    }
    case DataClass::limit: {
        const int below = static_cast<int>((own >> 8U) % 4) * 4095;
        return std::ldexp(static_cast<float>((1 << 24) - below), own % 2 == 0 ? 32 : 31) *
               (own % 3 == 0 ? -1.0F : 1.0F);
    }
    }
    return 0.0F;
}

float initial_parameter(DataClass kind, std::uint64_t seed, Index index) {
    const int value = bell(draw(Stream::parameter, seed, no_rank, 0, index));
    const bool few_bits = kind == DataClass::dyadic;
    return few_bits ? std::ldexp(static_cast<float>(value - value % 1024), -18)
                    : std::ldexp(static_cast<float>(value), -18);
}

} // namespace scape::problem
