#include "peers/peer.hpp"

#include <algorithm>
#include <array>

#include <scape/distributed/mask_code.hpp>
#include <scape/problem/error.hpp>

#include "peers/kinds.hpp"

namespace scape::peers {
namespace {

constexpr std::array<Kind, 8> all_kinds{{
    {"dense", false, true, "AdamS, sharded: gradients and parameters as fp32"},
    {"dense-bf16", false, true, "AdamS, sharded: gradients as bf16, parameters as fp32"},
    {"dense-bf16-all", false, true, "AdamS, sharded: gradients and parameters as bf16"},
    {"adamw", false, true, "AdamW, sharded: gradients and parameters as fp32"},
    {"topk-indices", true, true, "each rank's own top k, values and indices, gathered by all"},
    {"ok-topk", true, false, "balanced sparse all-reduce after Ok-Topk"},
    {"unsharded", true, true, "SCAPE in its authors' non-sharded form, bitmap masks"},
    {"scape", true, true, "SCAPE"},
}};

} // namespace

std::span<const Kind> kinds() {
    return all_kinds;
}

const Kind& kind_of(std::string_view name) {
    std::string names;
    for (const Kind& kind : all_kinds) {
        if (kind.name == name)
            return kind;
        names += (names.empty() ? "" : ", ") + std::string(kind.name);
    }
    throw Error("peer is '" + std::string(name) + "'; it must be one of " + names);
}

problem::Layout one_tensor(Index size) {
    return problem::Layout({{"all", size, false}});
}

std::vector<problem::Range> shards(Index size, int ranks) {
    return problem::ranges(one_tensor(size), ranks, problem::PartitionRule::by_shard);
}

std::vector<problem::Range> word_shards(Index size, int ranks) {
    constexpr Index word = 64;
    const Index each = ((size + ranks - 1) / ranks + word - 1) / word * word;
    std::vector<problem::Range> result;
    for (Index rank = 0; rank < ranks; ++rank)
        result.push_back({std::min(size, rank * each), std::min(size, (rank + 1) * each)});
    return result;
}

std::vector<std::size_t> sizes_of(std::span<const problem::Range> ranges, std::size_t width) {
    std::vector<std::size_t> sizes;
    for (const problem::Range& range : ranges)
        sizes.push_back(static_cast<std::size_t>(range.size()) * width);
    return sizes;
}

Index count_at(Index size, double density) {
    return size == 0 ? 0 : problem::selected_count({0, size, 0, false}, density, problem::KRounding::floor);
}

std::unique_ptr<Peer> make_peer(std::string_view name, const Setting& setting, Communicator& communicator,
                                std::span<const float> parameters) {
    const std::string_view kind = kind_of(name).name;
    if (kind == "dense")
        return make_dense(setting, communicator, parameters);
    if (kind == "dense-bf16")
        return make_dense_bf16(setting, communicator, parameters, Gathered::fp32);
    if (kind == "dense-bf16-all")
        return make_dense_bf16(setting, communicator, parameters, Gathered::bf16);
    if (kind == "adamw")
        return make_adamw(setting, communicator, parameters);
    if (kind == "topk-indices")
        return make_topk(setting, communicator, parameters);
    if (kind == "ok-topk")
        return make_ok_topk(setting, communicator, parameters);
    if (kind == "unsharded")
        return make_unsharded(setting, communicator, parameters);
    return make_scape(setting, communicator, parameters);
}

double formula_bytes(std::string_view name, const Setting& setting, int ranks, int rank) {
    const std::string_view kind = kind_of(name).name;
    const auto others = static_cast<double>(ranks - 1);
    const auto me = static_cast<std::size_t>(rank);
    const auto d = static_cast<double>(setting.size);
    const auto share = static_cast<double>(shards(setting.size, ranks)[me].size());
    constexpr double verdict = 16.0; // to each of the others, by those that check their gradients
    // A reduce-scatter of what belongs to others, an all-gather of the own shard.
    const auto dense = [&](double gradient, double parameter) {
        return gradient * (d - share) + parameter * share * others;
    };
    if (kind == "dense")
        return dense(4, 4) + verdict * others;
    if (kind == "dense-bf16")
        return dense(2, 4);
    if (kind == "dense-bf16-all")
        return dense(2, 2);
    if (kind == "adamw")
        return dense(4, 4);
    const auto k = static_cast<double>(count_at(setting.size, setting.density));
    if (kind == "topk-indices")
        return 8 * k * others;
    if (kind == "ok-topk")
        return 2 * 8 * k * others / static_cast<double>(ranks);
    // Both forms of SCAPE: the payload to its owners, their mean back, and the mask of the own range.
    const bool unsharded = kind == "unsharded";
    const auto ranges = unsharded ? word_shards(setting.size, ranks) : shards(setting.size, ranks);
    double selected = 0;
    for (const problem::Range& range : ranges)
        selected += static_cast<double>(count_at(range.size(), setting.density));
    const Index n = ranges[me].size();
    const Index own = count_at(n, setting.density);
    const auto mask = static_cast<double>(unsharded ? static_cast<std::size_t>((n + 7) / 8)
                                                    : distributed::coded_bytes(n, own));
    return 4 * (selected - static_cast<double>(own)) + 4 * static_cast<double>(own) * others +
           mask * others + (unsharded ? 0.0 : verdict * others);
}

} // namespace scape::peers
