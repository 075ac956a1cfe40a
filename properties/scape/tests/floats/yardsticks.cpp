#include "yardsticks.hpp"

#include <atomic>
#include <cmath>
#include <cstdio>

#include <scape/verify/bounded.hpp>
#include <scape/verify/comparator.hpp>

#include "compared.hpp"
#include "peers/arithmetic.hpp"

namespace scape::floats {

namespace {

constexpr std::uint64_t floats_in_all = std::uint64_t{1} << 32U;

/// From each finite number to the next larger is one step, and to +0 as many as its magnitude counts.
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

/// The nearest number whose lower 16 bits are 0, of two the one with the even last bit.
bool bf16_is_right(Bits bits) {
    const float value = floats::number(bits);
    if (!std::isfinite(value))
        return true; // the function is of finite numbers
    const Bits result = peers::to_bf16(value);
    const Bits down = bits >> 16U;
    const Bits up = down + 1;
    // Neighbours of one sign are as far apart in value as in bits: their step is 2^16 there.
    const Bits above_down = bits % 0x1'0000U;
    if (above_down == 0x8000U)
        return result == (down % 2 == 0 ? down : up);
    return result == (above_down < 0x8000U ? down : up);
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
        in_parallel(floats_in_all / together, threads, [&](Workplace&, std::uint64_t number) {
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
        char text[128];
        static_cast<void>(std::snprintf(text, sizeof text, "%-38s %12llu inputs, %llu wrong\n", check.name,
                                        static_cast<unsigned long long>(values.load()),
                                        static_cast<unsigned long long>(wrong.load())));
        say(text);
        ok = ok && wrong == 0 && values > 0;
    }
    return ok;
}

} // namespace scape::floats
