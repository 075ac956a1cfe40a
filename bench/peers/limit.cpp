// The least that each kind of peer has to send, read and write, independent of its code.
#include "peers/limit.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "peers/kinds.hpp"

namespace truestep::peers {
namespace {

/// Bytes that distinguish one selection of k out of n from all others: log2 of their number, by
/// lgamma.
double selection_bytes(Index size, Index count) {
    const auto n = static_cast<double>(size);
    const auto k = static_cast<double>(count);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): only a sign is shared, which is never read
    return (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) / std::numbers::ln2 / 8;
}

double least_wire(std::string_view kind, const Setting& setting, int ranks) {
    const auto d = static_cast<double>(setting.size);
    const auto others = static_cast<double>(ranks - 1);
    const double f = others / static_cast<double>(ranks);
    if (kind == "dense" || kind == "adamw" || kind == "diloco")
        return 8 * d * f;
    if (kind == "dense-bf16")
        return 6 * d * f;
    if (kind == "dense-bf16-all")
        return 4 * d * f;
    if (kind == "gasloc")
        return formula_bytes(kind, setting, ranks) / static_cast<double>(ranks);
    // Each rank's own k of all coordinates, and their indices.
    const Index k = count_at(setting.size, setting.density);
    const double entries = 4 * static_cast<double>(k) + selection_bytes(setting.size, k);
    if (kind == "topk-indices")
        return entries * others;
    if (kind == "ok-topk") // to the owners, and as many sums back
        return 2 * entries * f;
    // All forms of SCAPE: one mask, of which each rank makes its range; values to owners, and back
    // in fp32.
    const double both_ways = kind == "scape-bf16" ? 2 + 4 : 4 + 4;
    double bytes = 0;
    for (const problem::Range& range :
         kind == "unsharded" ? word_shards(setting.size, ranks) : shards(setting.size, ranks)) {
        const Index own = count_at(range.size(), setting.density);
        bytes += both_ways * static_cast<double>(own) + selection_bytes(range.size(), own);
    }
    return bytes * f;
}

/// Bytes per parameter in one step.
double least_memory(std::string_view kind, double ranks) {
    constexpr double read = 4;
    constexpr double write = 4;
    constexpr double both = read + write;
    if (kind == "dense" || kind == "dense-bf16") // g, w; of the own share m, and the old w
        return read + write + (both + read) / ranks;
    if (kind == "dense-bf16-all") // the own share is also kept in fp32
        return read + write + (both + both) / ranks;
    if (kind == "adamw")
        return read + write + (both + both + read) / ranks;
    if (kind == "topk-indices" || kind == "ok-topk") // g, e, w
        return read + both + both;
    if (kind == "diloco" || kind == "gasloc") // g, m, x
        return read + both + both;
    constexpr double masks = 2.0 / 8; // S_t is read, the coming mask written
    return read + both + both + masks;
}

/// Bytes per parameter at the end of a round.
double least_memory_of_exchange(std::string_view kind, double ranks) {
    if (kind == "diloco") // x, theta; of the own share the old theta, and the momentum
        return 4 + 4 + (4 + 8) / ranks;
    if (kind == "gasloc") // x; theta and the previous y, both
        return 4 + 8 + 8;
    return 0;
}

} // namespace

LeastBytes least_bytes(std::string_view name, const Setting& setting, int ranks) {
    const Kind& kind = kind_of(name);
    const auto steps = static_cast<double>(inner_steps(kind, setting));
    const auto workers = static_cast<double>(ranks);
    return {least_wire(kind.name, setting, ranks) / steps,
            static_cast<double>(setting.size) *
                (least_memory(kind.name, workers) + least_memory_of_exchange(kind.name, workers) / steps)};
}

double Limit::larger() const {
    return std::max(wire, memory);
}

Limit limit_of(const LeastBytes& least, double rate, double copy) {
    return {rate > 0 ? least.wire / rate : 0, least.memory / copy};
}

} // namespace truestep::peers
