// Checks ULP distance, REL's scalar, bf16 rounding and a step's scalars over sampled or all floats.
#include "yardsticks.hpp"

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>

#include <truestep/distributed/scalars.hpp>
#include <truestep/reference/coefficients.hpp>
#include <truestep/verify/bounded.hpp>
#include <truestep/verify/comparator.hpp>

#include "compare_forms.hpp"
#include "oracle.hpp"
#include "peers/arithmetic.hpp"

namespace truestep::properties::scape::floats {

namespace {

constexpr std::uint64_t floats_in_all = std::uint64_t{1} << 32U;

/// Checks that a finite number is one step from the next one in magnitude, and as many steps from +0 as its
/// magnitude counts, one more if it is negative.
bool distance_is_right(Bits bits) {
    const float value = floats::number(bits);
    if (verify::ulp_distance(value, value) != 0.0)
        return false;
    if (!std::isfinite(value))
        return std::isinf(verify::ulp_distance(value, 1.0F)) &&
               std::isinf(verify::ulp_distance(1.0F, value));
    const bool negative = bits >= 0x8000'0000U;
    const Bits magnitude = bits % 0x8000'0000U;
    const double to_zero = static_cast<double>(magnitude) + (negative ? 1.0 : 0.0);
    const float beyond = floats::number(bits + 1);
    return verify::ulp_distance(value, 0.0F) == to_zero && verify::ulp_distance(0.0F, value) == to_zero &&
           (!std::isfinite(beyond) || verify::ulp_distance(value, beyond) == 1.0);
}

bool is_exact(Bits bits) {
    const float value = floats::number(bits);
    if (!std::isfinite(value))
        return true;
    const verify::Bounded bounded(static_cast<double>(value));
    return bounded.value() == static_cast<double>(value) && bounded.error() == 0.0;
}

/// Checks that the result is the nearest number whose lower 16 bits are 0; in a tie, the one with the even
/// last bit.
bool bf16_is_right(Bits bits) {
    const float value = floats::number(bits);
    if (!std::isfinite(value))
        return true; // the function is for finite numbers
    const Bits result = peers::to_bf16(value);
    const Bits down = bits >> 16U;
    const Bits up = down + 1;
    // Neighbours of one sign are as far apart in value as in bits: their step is 2^16 there.
    const Bits above_down = bits % 0x1'0000U;
    if (above_down == 0x8000U)
        return result == (down % 2 == 0 ? down : up);
    return result == (above_down < 0x8000U ? down : up);
}

bool same_bits(float a, float b, float c) {
    return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b) &&
           std::bit_cast<Bits>(b) == std::bit_cast<Bits>(c);
}

/// Compares the scalars of a drawn step: those of distributed/, of the reference, and of the oracle.
bool scalars_are_right(std::uint64_t number) {
    using problem::BiasCorrection;
    Random random(number);
    problem::HyperParameters settings;
    constexpr std::array corrections{BiasCorrection::none, BiasCorrection::adam, BiasCorrection::momentum};
    const auto beta = [&] { // near 1 half of the time
        return random.below(2) == 0 ? random.unit() : 1.0 - std::exp2(-30.0 * random.unit());
    };
    settings.beta1 = beta();
    settings.beta2 = beta();
    settings.epsilon = std::exp2(-148.0 * random.unit());
    settings.weight_decay = random.below(4) == 0 ? 0.0 : std::exp2(-20.0 * random.unit());
    settings.bias_correction = random.of(corrections);
    const int workers = 1 + static_cast<int>(random.below(1000));
    const Index t = 1 + static_cast<Index>(std::exp2(30.0 * random.unit()));
    const double learning_rate = std::exp2(-40.0 * random.unit());
    const problem::Problem problem{
        problem::Algorithm::scape, workers, problem::Layout({{"one", 1}}), {}, settings};
    const distributed::Scalars a = distributed::scalars_of(problem, t, learning_rate);
    const distributed::Scalars b = oracle::scalars(settings, workers, t, learning_rate);
    const reference::Coefficients<float> c(settings, t, learning_rate);
    return same_bits(a.b1, b.b1, c.b1) && same_bits(a.a1, b.a1, c.a1) && same_bits(a.b2, b.b2, c.b2) &&
           same_bits(a.a2, b.a2, c.a2) && same_bits(a.epsilon, b.epsilon, c.eps) &&
           same_bits(a.learning_rate, b.learning_rate, c.lr) && same_bits(a.decay, b.decay, c.decay) &&
           same_bits(a.inv1, b.inv1, c.inv1) && same_bits(a.invs2, b.invs2, c.invs2) &&
           same_bits(a.workers, b.workers, b.workers);
}

std::string told(const char* name, std::uint64_t inputs, std::uint64_t wrong) {
    char text[128];
    static_cast<void>(std::snprintf(text, sizeof text, "%-38s %12llu inputs, %llu wrong\n", name,
                                    static_cast<unsigned long long>(inputs),
                                    static_cast<unsigned long long>(wrong)));
    return text;
}

} // namespace

bool check_yardsticks(bool all, int threads, const std::function<void(const std::string&)>& say) {
    struct Check {
        const char* name;
        bool (*holds)(Bits bits);
    };
    constexpr std::uint64_t quick_stride = 251;
    const std::uint64_t stride = all ? 1 : quick_stride;
    constexpr std::uint64_t together = 1U << 22U;
    bool ok = true;
    for (const Check& check :
         {Check{"distance in ULP", distance_is_right}, Check{"a float is exact for REL", is_exact},
          Check{"the peers' bf16", bf16_is_right}}) {
        std::atomic<std::uint64_t> wrong = 0;
        std::atomic<std::uint64_t> values = 0;
        in_parallel(floats_in_all / together, threads, [&](ThreadBuffers&, std::uint64_t number) {
            std::uint64_t wrong_here = 0;
            std::uint64_t count = 0;
            for (std::uint64_t i = number * together + number % stride; i < (number + 1) * together;
                 i += stride) {
                ++count;
                wrong_here += check.holds(static_cast<Bits>(i)) ? 0U : 1U;
            }
            wrong += wrong_here;
            values += count;
        });
        say(told(check.name, values, wrong));
        ok = ok && wrong == 0 && values > 0;
    }
    const std::uint64_t steps = all ? 4'000'000 : 40'000;
    std::uint64_t wrong = 0;
    for (std::uint64_t number = 0; number < steps; ++number)
        wrong += scalars_are_right(number) ? 0U : 1U;
    say(told("scalars of a step", steps, wrong));
    return ok && wrong == 0;
}

} // namespace truestep::properties::scape::floats
