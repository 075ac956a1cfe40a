// Lists all peers with their properties, and makes one from its name and its setting.
#include "peers/peer.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

#include "peers/kinds.hpp"

namespace truestep::peers {
namespace {

constexpr std::array<Kind, 12> all_kinds{{
    {"dense", Number::none, true, true, "AdamS, sharded: gradients and parameters as fp32"},
    {"dense-bf16", Number::none, true, true, "AdamS, sharded: gradients as bf16, parameters as fp32"},
    {"dense-bf16-all", Number::none, true, true, "AdamS, sharded: gradients and parameters as bf16"},
    {"adamw", Number::none, true, true, "AdamW, sharded: gradients and parameters as fp32", true},
    {"topk-indices", Number::density, true, true, "each rank's own top k, values and indices, by all"},
    {"ok-topk", Number::density, false, true, "balanced sparse all-reduce after Ok-Topk"},
    {"unsharded", Number::density, true, true, "SCAPE in its authors' non-sharded form, bitmap masks"},
    {"scape", Number::density, true, true, "SCAPE", true},
    {"scape-using-up", Number::density, true, true, "SCAPE that may write into the gradient", true, true},
    {"scape-bf16", Number::density, true, true, "SCAPE, values to their owners as bf16", true},
    {"diloco", Number::inner_steps, true, true, "local AdamS, every H steps the mean of all, Nesterov"},
    {"gasloc", Number::inner_steps, true, false, "GASLoC: local AdamS, every H steps a neighbour"},
}};

} // namespace

namespace {

template <class Values>
const Values& part_of(const std::map<std::string, Values>& parts, const std::string& name,
                      std::size_t size) {
    const auto found = parts.find(name);
    if (found == parts.end() || found->second.size() != size)
        throw Error("the state has no '" + name + "' of " + std::to_string(size) +
                    " values; it is of another optimizer, model or number of ranks");
    return found->second;
}

} // namespace

const std::vector<float>& values_in(const State& state, const std::string& name, std::size_t size) {
    return part_of(state.vectors, name, size);
}

const std::vector<std::uint64_t>& words_in(const State& state, const std::string& name, std::size_t size) {
    return part_of(state.words, name, size);
}

Index count_in(const State& state, const std::string& name) {
    return static_cast<Index>(words_in(state, name, 1).front());
}

std::vector<std::uint64_t> words_of(const distributed::Mask& mask) {
    return {mask.words(), mask.words() + mask.word_count()};
}

distributed::Mask mask_in(const State& state, const std::string& name, Index size) {
    distributed::Mask mask(size);
    std::ranges::copy(words_in(state, name, mask.word_count()), mask.words());
    mask.count();
    return mask;
}

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

Index inner_steps(const Kind& kind, const Setting& setting) {
    return kind.number == Number::inner_steps ? setting.inner_steps : 1;
}

Choice parse(std::string_view text, Index size) {
    const std::size_t colon = text.find(':');
    Choice choice{&kind_of(text.substr(0, colon)), {size}};
    if (colon == std::string_view::npos)
        return choice;
    const std::string_view number = text.substr(colon + 1);
    const auto refuse = [&](const std::string& why) {
        throw Error("peer is '" + std::string(text) + "'; " + why);
    };
    switch (choice.kind->number) {
    case Number::none:
        refuse(std::string(choice.kind->name) + " takes no number");
        break;
    case Number::density: {
        const auto density = parse_number<double>(number);
        if (!density || !(*density > 0 && *density <= 1))
            refuse("its density must be a number in (0, 1]");
        choice.setting.density = *density;
        break;
    }
    case Number::inner_steps: {
        constexpr Index most = 10'000; // the check before the timing takes three rounds of them
        const auto steps = parse_number<Index>(number);
        if (!steps || *steps < 1 || *steps > most)
            refuse("its inner steps must be a whole number from 1 to " + std::to_string(most));
        choice.setting.inner_steps = *steps;
        break;
    }
    }
    return choice;
}

problem::Layout one_tensor(Index size) {
    return problem::Layout({{"all", size, false}});
}

problem::Layout layout_of(const Setting& setting) {
    return setting.tensors.empty() ? one_tensor(setting.size) : problem::Layout(setting.tensors);
}

problem::DensitySchedule density_of(const Setting& setting) {
    return setting.density_warm_up == 0
               ? problem::DensitySchedule::constant(setting.density)
               : problem::DensitySchedule::geometric(1.0, setting.density, setting.density_warm_up);
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

problem::gasloc::Settings gasloc_settings(const Setting& setting) {
    problem::gasloc::Settings settings;
    settings.inner = problem::gasloc::Inner::adams;
    settings.hyper = setting.hyper;
    settings.law = setting.law;
    if (setting.law == problem::gasloc::Law::exponential)
        settings.alpha = 0.5; // the default diverges under it (section 15)
    return settings;
}

std::unique_ptr<Peer> make_peer(std::string_view name, const Setting& setting, const Links& links,
                                std::span<const float> parameters) {
    const std::string_view kind = kind_of(name).name;
    if (kind == "dense")
        return make_dense(setting, links.all, parameters);
    if (kind == "dense-bf16")
        return make_dense_bf16(setting, links.all, parameters, ParameterFormat::fp32);
    if (kind == "dense-bf16-all")
        return make_dense_bf16(setting, links.all, parameters, ParameterFormat::bf16);
    if (kind == "adamw")
        return make_adamw(setting, links.all, parameters);
    if (kind == "topk-indices")
        return make_topk(setting, links.all, parameters);
    if (kind == "ok-topk")
        return make_ok_topk(setting, links.all, parameters);
    if (kind == "unsharded")
        return make_unsharded(setting, links.all, parameters);
    if (kind == "diloco")
        return make_diloco(setting, links.all, parameters);
    if (kind == "gasloc")
        return make_gasloc(setting, links.each, parameters);
    if (kind == "scape-using-up")
        return make_scape_using_up(setting, links.all, parameters);
    return make_scape(setting, links.all, parameters,
                      kind == "scape-bf16" ? problem::Payload::bf16 : problem::Payload::fp32);
}

} // namespace truestep::peers
