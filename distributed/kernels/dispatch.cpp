// Chooses the kernels for this CPU's instruction set, or those that TRUESTEP_KERNELS names.
#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <truestep/distributed/kernels.hpp>

#include "table.hpp"

namespace truestep::distributed::host {

namespace {

bool supported(Variant variant) {
#if defined(__x86_64__)
    switch (variant) {
    case Variant::plain:
        return true;
    case Variant::avx2:
        return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi") != 0 &&
               __builtin_cpu_supports("popcnt") != 0;
    case Variant::avx512:
        return supported(Variant::avx2) && __builtin_cpu_supports("avx512f") != 0 &&
               __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
               __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("bmi2") != 0;
    }
    return false;
#else
    return variant == Variant::plain;
#endif
}

const Table& table_of(Variant variant) {
#if defined(__x86_64__)
    if (variant == Variant::avx512)
        return avx512_table;
    if (variant == Variant::avx2)
        return avx2_table;
#endif
    static_cast<void>(variant);
    return plain_table;
}

std::atomic<Variant>& chosen() {
    static std::atomic<Variant> variant = variant_for(std::getenv("TRUESTEP_KERNELS"));
    return variant;
}

} // namespace

std::string_view name(Variant variant) {
    switch (variant) {
    case Variant::plain:
        return "plain";
    case Variant::avx2:
        return "avx2";
    case Variant::avx512:
        return "avx512";
    }
    return "unknown";
}

std::vector<Variant> supported_variants() {
    std::vector<Variant> result;
    for (const Variant candidate : {Variant::plain, Variant::avx2, Variant::avx512})
        if (supported(candidate))
            result.push_back(candidate);
    return result;
}

Variant variant_for(const char* asked) {
    const std::vector<Variant> all = supported_variants();
    if (asked == nullptr)
        return all.back();
    std::string names;
    for (const Variant one : all) {
        if (name(one) == asked)
            return one;
        names += (names.empty() ? "" : ", ") + std::string(name(one));
    }
    throw std::invalid_argument("TRUESTEP_KERNELS=" + std::string(asked) + ": this machine has " + names);
}

Variant variant() {
    return chosen().load(std::memory_order_relaxed);
}

void use_variant(Variant variant) {
    if (!supported(variant))
        throw std::invalid_argument("this machine has no " + std::string(name(variant)));
    chosen().store(variant, std::memory_order_relaxed);
}

const Table& table() {
    return table_of(variant());
}

} // namespace truestep::distributed::host
