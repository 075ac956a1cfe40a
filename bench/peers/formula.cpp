// The bytes that each peer sends, computed from its settings.
#include <truestep/distributed/scape/mask_code.hpp>

#include "model/meetings.hpp"
#include "peers/kinds.hpp"

namespace truestep::peers {

double formula_bytes(std::string_view name, const Setting& setting, int ranks, int rank) {
    const std::string_view kind = kind_of(name).name;
    const auto others = static_cast<double>(ranks - 1);
    const auto me = static_cast<std::size_t>(rank);
    const auto d = static_cast<double>(setting.size);
    const auto share = static_cast<double>(shards(setting.size, ranks)[me].size());
    constexpr double verdict = 16.0; // to each other rank, for peers that check their gradients
    // A reduce-scatter of the other ranks' shards, and an all-gather of the own one.
    const auto dense = [&](double gradient, double parameter) {
        return gradient * (d - share) + parameter * share * others;
    };
    if (kind == "dense")
        return dense(4, 4) + verdict * others;
    if (kind == "dense-bf16")
        return dense(2, 4);
    if (kind == "dense-bf16-all")
        return dense(2, 2);
    if (kind == "adamw") // it also says whether all that it owns stays finite
        return dense(4, 4) + (verdict + 1) * others;
    if (kind == "diloco")
        return dense(4, 4);
    if (kind == "gasloc")
        return formula_bytes(name, setting, ranks) / static_cast<double>(ranks);
    const auto k = static_cast<double>(count_at(setting.size, setting.density));
    if (kind == "topk-indices")
        return 8 * k * others;
    if (kind == "ok-topk")
        return 2 * 8 * k * others / static_cast<double>(ranks);
    // All forms of SCAPE: the payload to its owners, their mean back in fp32, and the mask of the
    // own range.
    const bool unsharded = kind == "unsharded";
    const auto ranges = unsharded ? word_shards(setting.size, ranks) : shards(setting.size, ranks);
    double selected = 0;
    for (const problem::Range& range : ranges)
        selected += static_cast<double>(count_at(range.size(), setting.density));
    const Index n = ranges[me].size();
    const Index own = count_at(n, setting.density);
    const auto mask = static_cast<double>(unsharded ? static_cast<std::size_t>((n + 7) / 8)
                                                    : distributed::scape::coded_bytes(n, own));
    const double value = kind == "scape-bf16" ? 2 : 4;
    return value * (selected - static_cast<double>(own)) + 4 * static_cast<double>(own) * others +
           mask * others + (unsharded ? 0.0 : verdict * others);
}

double formula_bytes(std::string_view name, const Setting& setting, int ranks) {
    // A worker sends all its parameters to each worker that it meets.
    if (name == "gasloc")
        return 2 * model::meetings(setting.law, ranks) * 4 * static_cast<double>(setting.size);
    double bytes = 0;
    for (int rank = 0; rank < ranks; ++rank)
        bytes += formula_bytes(name, setting, ranks, rank);
    return bytes;
}

} // namespace truestep::peers
