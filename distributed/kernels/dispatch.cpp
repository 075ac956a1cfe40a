// Chooses the kernels for this CPU's instruction set, or those that TRUESTEP_KERNELS names, and forwards
// each call to them.
#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/local.hpp>

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

Index first_unacceptable(const float* g, Index begin, Index end) {
    return table().first_unacceptable(g, begin, end);
}

void local_pass(const Scalars& scalars, Index begin, Index end, const float* g, float* e, const Mask& last,
                const float* m, const Mask& current, float* payload) {
    static_cast<void>(local_pass(scalars, begin, end, {g, e, e, last, m, current, payload}));
}

Index local_pass(const Scalars& scalars, Index begin, Index end, const LocalPass& pass) {
    return table().local_pass(scalars, begin, end, pass);
}

void extract(Index begin, Index end, float* e, const Mask& current, float* payload) {
    table().extract(begin, end, e, current, payload);
}

void repack(Index begin, Index end, const Mask& last, const float* m, const Mask& current,
            float* m_on_current) {
    table().repack(begin, end, last, m, current, m_on_current);
}

void fold(const Scalars& scalars, int workers, Index begin, Index end, const float* parts, Index stride,
          float* mean) {
    table().fold(scalars, workers, begin, end, parts, stride, mean);
}

void to_bf16(Index begin, Index end, float* c, std::uint16_t* sent, float* lost) {
    table().to_bf16(begin, end, c, sent, lost);
}

void fold_bf16(const Scalars& scalars, int workers, Index begin, Index end, const std::uint16_t* parts,
               Index stride, float* mean) {
    table().fold_bf16(scalars, workers, begin, end, parts, stride, mean);
}

void to_e5m2(const element::E5m2Scale& scale, Index begin, Index end, float* c, std::uint8_t* sent,
             float* lost) {
    table().to_e5m2(scale, begin, end, c, sent, lost);
}

void fold_e5m2(const Scalars& scalars, const element::E5m2Scale& scale, int workers, Index begin, Index end,
               const std::uint8_t* parts, Index stride, float* mean) {
    table().fold_e5m2(scalars, scale, workers, begin, end, parts, stride, mean);
}

std::uint32_t greatest_score_of(Index begin, Index end, const float* c) {
    return table().greatest_score_of(begin, end, c);
}

void reconstruct(const Scalars& scalars, Index begin, Index end, const float* M, const float* m,
                 float* ghat) {
    table().reconstruct(scalars, begin, end, M, m, ghat);
}

void square_sums(Index first, Index last, const float* ghat, Index size, double* sums) {
    table().square_sums(first, last, ghat, size, sums);
}

void clip(const Scalars& scalars, float s, Index begin, Index end, const float* m, float* ghat, float* M) {
    table().clip(scalars, s, begin, end, m, ghat, M);
}

void directions(problem::BiasCorrection correction, const Scalars& scalars, Index begin, Index end,
                const float* M, const float* m, const float* ghat, float* u) {
    table().directions(correction, scalars, begin, end, M, m, ghat, u);
}

bool update(const Scalars& scalars, Index begin, Index end, float* w, const Mask& current, const float* u) {
    return table().update(scalars, begin, end, w, current, u);
}

bool dense(problem::BiasCorrection correction, const Scalars& scalars, Index size, const float* g, float* m,
           float* w) {
    return table().dense(correction, scalars, size, g, m, w);
}

bool finite(const float* values, Index size) {
    return table().finite(values, size);
}

Index count_common(const std::uint64_t* a, const std::uint64_t* b, Index count) {
    return table().count_common(a, b, count);
}

void encode_bitmap(const std::uint64_t* words, Index begin, Index end, std::uint8_t* code) {
    table().encode_bitmap(words, begin, end, code);
}

bool decode_bitmap(const std::uint8_t* code, Index begin, Index end, Index k, std::uint64_t* words) {
    return table().decode_bitmap(code, begin, end, k, words);
}

void encode_positions(const std::uint64_t* words, Index begin, Index end, std::uint8_t* counts,
                      std::uint8_t* positions, const std::uint8_t* positions_end) {
    table().encode_positions(words, begin, end, counts, positions, positions_end);
}

bool decode_positions(const std::uint8_t* counts, const std::uint8_t* positions, Index begin, Index end,
                      Index k, std::uint64_t* words) {
    return table().decode_positions(counts, positions, begin, end, k, words);
}

bool inner(InnerRule rule, const Scalars& scalars, Index begin, Index end, const InnerStep& vectors) {
    return table().inner(rule, scalars, begin, end, vectors);
}

void drift(float eta, Index begin, Index end, const float* theta, float* x) {
    table().drift(eta, begin, end, theta, x);
}

bool gossip(const Gossip& gossip, Index begin, Index end, const float* y, float* before, float* theta) {
    return table().gossip(gossip, begin, end, y, before, theta);
}

} // namespace truestep::distributed::host
