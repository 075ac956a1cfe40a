// Chooses the kernels for this CPU's instruction set, or those that TRUESTEP_KERNELS names.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <truestep/distributed/kernels.hpp>

#include "table.hpp"

namespace truestep::distributed::host {

namespace {

constexpr std::array<std::string_view, 4> names{"plain", "avx2", "avx512", "neon"};

/// Null where the variant is of another machine.
const Table* find_table(Variant variant) {
    if (variant == Variant::plain)
        return &plain_table;
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi") != 0 &&
                      __builtin_cpu_supports("popcnt") != 0;
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") != 0 &&
                        __builtin_cpu_supports("avx512vl") != 0 &&
                        __builtin_cpu_supports("avx512bw") != 0 &&
                        __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("bmi2") != 0;
    if (variant == Variant::avx2)
        return avx2 ? &avx2_table : nullptr;
    if (variant == Variant::avx512)
        return avx512 ? &avx512_table : nullptr;
#elif defined(__aarch64__)
    if (variant == Variant::neon)
        return &neon_table;
#endif
    return nullptr;
}

std::atomic<Variant>& chosen() {
    static std::atomic<Variant> variant = variant_for(std::getenv("TRUESTEP_KERNELS"));
    return variant;
}

} // namespace

std::string_view name(Variant variant) {
    const auto number = static_cast<std::size_t>(variant);
    return number < names.size() ? names[number] : "unknown";
}

std::vector<Variant> supported_variants() {
    std::vector<Variant> result;
    for (std::size_t i = 0; i < names.size(); ++i)
        if (const auto candidate = static_cast<Variant>(i); find_table(candidate) != nullptr)
            result.push_back(candidate);
    return result;
}

const Table& table_of(Variant variant) {
    const Table* const result = find_table(variant);
    if (result == nullptr)
        throw std::invalid_argument("this machine has no " + std::string(name(variant)));
    return *result;
}

Variant variant_for(const char* asked) {
    const std::vector<Variant> all = supported_variants();
    if (asked == nullptr)
        return all.back();
    std::string here;
    for (const Variant one : all) {
        if (name(one) == asked)
            return one;
        here += (here.empty() ? "" : ", ") + std::string(name(one));
    }
    throw std::invalid_argument("TRUESTEP_KERNELS=" + std::string(asked) + ": this machine has " + here);
}

Variant variant() {
    return chosen().load(std::memory_order_relaxed);
}

void use_variant(Variant variant) {
    static_cast<void>(table_of(variant));
    chosen().store(variant, std::memory_order_relaxed);
}

const Table& table() {
    return table_of(variant());
}

} // namespace truestep::distributed::host
