// Draws synthetic gradients and parameters of each data class from a seed, a rank and a step.
#include <truestep/problem/data.hpp>

#include <array>
#include <bit>
#include <utility>

#include <truestep/problem/error.hpp>

namespace truestep::problem {

namespace {

constexpr std::array<std::pair<DataClass, std::string_view>, 9> names{{
    {DataClass::normal, "normal"},
    {DataClass::dyadic, "dyadic"},
    {DataClass::ties, "ties"},
    {DataClass::sparse, "sparse"},
    {DataClass::subnormal, "subnormal"},
    {DataClass::wide, "wide"},
    {DataClass::zeros, "zeros"},
    {DataClass::limit, "limit"},
    {DataClass::once, "once"},
}};

/// The purpose of a draw. No two purposes share their bits.
enum class Stream : std::uint64_t { shared, own, scale, zero, parameter };

constexpr int no_rank = -1;

/// The finalizer of splitmix64: every bit of the input changes half the bits of the output.
std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e37'79b9'7f4a'7c15U;
    x = (x ^ (x >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d0'49bb'1331'11ebU;
    return x ^ (x >> 31U);
}

/// One stream of a step, from which any coordinate's number can be drawn: all but the coordinate is mixed
/// once, since the gate draws more numbers than it does anything else.
class Draws {
  public:
    Draws(Stream stream, std::uint64_t seed, int rank, Index step) : mixed_(mixed(seed)) {
        for (const std::uint64_t part :
             {static_cast<std::uint64_t>(stream), static_cast<std::uint64_t>(rank),
              static_cast<std::uint64_t>(step)})
            mixed_ = mixed(mixed_ ^ part);
    }
    std::uint64_t operator[](Index index) const {
        return mixed(mixed_ ^ static_cast<std::uint64_t>(index));
    }

  private:
    std::uint64_t mixed_;
};

/// The sum of four uniform 16-bit numbers, centred: a bell of deviation 37837, exact in 18 bits.
int bell(std::uint64_t bits) {
    constexpr int centre = 2 * 65535;
    int sum = -centre;
    for (int part = 0; part < 4; ++part, bits >>= 16U)
        sum += static_cast<int>(bits & 0xffffU);
    return sum;
}

/// value * 2^exponent, rounded once: the product is exact in double.
float scaled(int value, int exponent) {
    constexpr int bias = 1023;
    constexpr int fraction_bits = 52;
    const auto power = std::bit_cast<double>(static_cast<std::uint64_t>(exponent + bias) << fraction_bits);
    return static_cast<float>(value * power);
}

/// The streams from which a rank's gradient of one step is made.
struct Streams {
    Draws shared;
    Draws own;
    Draws scale;
    Draws zero;
    bool is_first;

    Streams(std::uint64_t seed, int rank, Index step)
        : shared(Stream::shared, seed, no_rank, step), own(Stream::own, seed, rank, step),
          scale(Stream::scale, seed, no_rank, 0), zero(Stream::zero, seed, rank, step),
          is_first(step <= 1) {}

    float normal(Index index, int exponent) const {
        return scaled(bell(shared[index]) + bell(own[index]), exponent);
    }
    /// A bell of deviation 1, down to 1/16.
    int near_one(Index index) const { return -16 - static_cast<int>(scale[index] % 5); }
};

template <DataClass kind>
float value_of(const Streams& streams, Index index) {
    if constexpr (kind == DataClass::normal)
        return streams.normal(index, streams.near_one(index));
    if constexpr (kind == DataClass::once)
        return streams.is_first ? streams.normal(index, streams.near_one(index)) : 0.0F;
    if constexpr (kind == DataClass::sparse)
        return streams.zero[index] % 10 != 0 ? 0.0F : streams.normal(index, streams.near_one(index));
    if constexpr (kind == DataClass::subnormal)
        return streams.normal(index, streams.near_one(index) - 126);
    if constexpr (kind == DataClass::wide)
        return streams.normal(index, -76 + static_cast<int>(streams.scale[index] % 101));
    const std::uint64_t own = streams.own[index];
    if constexpr (kind == DataClass::dyadic)
        return scaled(static_cast<int>(own % 65) - 32, -6);
    if constexpr (kind == DataClass::ties) {
        constexpr std::array<float, 8> values{1.0F, -1.0F, 1.0F, -1.0F, 0.5F, -0.5F, 0.0F, -0.0F};
        return values[own % values.size()];
    }
    if constexpr (kind == DataClass::zeros) {
        constexpr std::array<float, 8> values{0.0F, -0.0F, 0.0F, -0.0F, 0.0F, -0.0F, 0x1p-20F, -0x1p-20F};
        return values[own % values.size()];
    }
    if constexpr (kind == DataClass::limit) {
        const int below = static_cast<int>((own >> 8U) % 4) * 4095;
        return scaled((1 << 24) - below, own % 2 == 0 ? 32 : 31) * (own % 3 == 0 ? -1.0F : 1.0F);
    }
}

template <DataClass kind>
void fill(std::span<float> values, const Streams& streams, Index first) {
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = value_of<kind>(streams, first + static_cast<Index>(i));
}

using Fill = void (*)(std::span<float>, const Streams&, Index);
constexpr std::array<std::pair<DataClass, Fill>, names.size()> fills{{
    {DataClass::normal, fill<DataClass::normal>},
    {DataClass::dyadic, fill<DataClass::dyadic>},
    {DataClass::ties, fill<DataClass::ties>},
    {DataClass::sparse, fill<DataClass::sparse>},
    {DataClass::subnormal, fill<DataClass::subnormal>},
    {DataClass::wide, fill<DataClass::wide>},
    {DataClass::zeros, fill<DataClass::zeros>},
    {DataClass::limit, fill<DataClass::limit>},
    {DataClass::once, fill<DataClass::once>},
}};

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

void fill_gradient(std::span<float> values, DataClass kind, std::uint64_t seed, int rank, Index step,
                   Index first) {
    const Streams streams(seed, rank, step);
    for (const auto& [of, fill] : fills)
        if (of == kind)
            fill(values, streams, first);
}

float gradient_value(DataClass kind, std::uint64_t seed, int rank, Index step, Index index) {
    float value = 0.0F;
    fill_gradient({&value, 1}, kind, seed, rank, step, index);
    return value;
}

std::vector<float> gradient(DataClass kind, std::uint64_t seed, int rank, Index step, Index size) {
    std::vector<float> values(static_cast<std::size_t>(size));
    fill_gradient(values, kind, seed, rank, step);
    return values;
}

float initial_parameter(DataClass kind, std::uint64_t seed, Index index) {
    const int value = bell(Draws(Stream::parameter, seed, no_rank, 0)[index]);
    return scaled(kind == DataClass::dyadic ? value - value % 1024 : value, -18);
}

std::vector<float> initial_parameters(DataClass kind, std::uint64_t seed, Index size) {
    std::vector<float> values;
    for (Index index = 0; index < size; ++index)
        values.push_back(initial_parameter(kind, seed, index));
    return values;
}

} // namespace truestep::problem
