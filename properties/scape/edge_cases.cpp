// The cases at the edges of registered constants.
#include <functional>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <truestep/gate/edges.hpp>

#include "generators.hpp"

namespace truestep::properties::scape {

namespace {

/// A case whose sizes are edges of one dimension, with ties and other values across them. It has one of
/// these numbers of ranks, which makes its tensors.
Case edge_case(gate::Covering& covering, problem::Dimension dimension, const std::vector<Index>& edges,
               std::initializer_list<int> ranks,
               const std::function<std::vector<Index>(int workers)>& tensors) {
    using problem::BiasCorrection;
    using problem::DataClass;
    using problem::Payload;
    gate::Extents here;
    for (const Index edge : edges)
        here.insert({dimension, edge});
    covering.begin(here);
    Case run;
    run.workers = covering.choose("workers", ranks);
    run.tensors.clear();
    for (const Index size : tensors(run.workers))
        run.tensors.push_back({"t" + std::to_string(run.tensors.size()), size, false});
    run.density = covering.choose("density", {0.1, 0.3, 0.01});
    run.data = covering.choose("data", {DataClass::ties, DataClass::normal, DataClass::sparse,
                                        DataClass::wide, DataClass::subnormal, DataClass::dyadic});
    if (run.workers > 1)
        run.payload = covering.choose("payload", {Payload::fp32, Payload::bf16, Payload::e5m2_both,
                                                  Payload::bf16_both, Payload::e5m2});
    if (run.workers > 2) // of two ranks no group is of several
        run.groups = covering.choose<problem::Groups>("groups", {{2}, {}});
    if (run.workers > 1 && !problem::rounds_mean(run.payload))
        run.owners_in_turn = covering.choose("owners", {false, true});
    using Norm = std::optional<problem::NormVersion>;
    const auto norm = covering.choose<Norm>(
        "norm", {problem::NormVersion::tree, std::nullopt, problem::NormVersion::ascending});
    run.clip_norm = norm || dimension == problem::Dimension::selected ? 0.5 : 0.0;
    run.norm = norm.value_or(run.norm);
    run.weight_decay = covering.choose("decay", {0.1, 0.0});
    run.bias_correction = covering.choose(
        "correction", {BiasCorrection::adam, BiasCorrection::none, BiasCorrection::momentum});
    run.beta1 = 0.9;
    run.beta2 = 0.95;
    run.steps = 3;
    if (covering.choose("parts", {false, true})) {
        run.parts = 2;
        run.uneven = run.workers > 1;
        run.bucket_bytes = 4 * run.tensors.front().size;
        run.cuts = CutRule::rebuilt;
    }
    // If numbers of ranks are pinned, the place chooses among them: this many again, if possible.
    run.chosen_place = 3 * (run.workers - 1);
    return run;
}

} // namespace

std::vector<Case> at_the_edges() {
    using problem::Dimension;
    using Sizes = std::vector<Index>;
    gate::Covering covering;
    std::vector<Case> all;
    const auto add = [&](Dimension dimension, const Sizes& edges, std::initializer_list<int> ranks,
                         const std::function<Sizes(Index)>& tensors) -> Case& {
        all.push_back(edge_case(covering, dimension, edges, ranks, tensors));
        all.back().seed = all.size();
        return all.back();
    };
    // Segments of all constants beside each other, each the whole of a tensor; not of one rank alone, which
    // writes no code for its mask.
    constexpr Index most = 140'000;
    for (const Sizes& of_constants : gate::edge_sizes_in_order(Dimension::segment)) {
        Sizes sizes;
        for (std::size_t i = 0; i < of_constants.size(); ++i) {
            sizes.push_back(of_constants[i]);
            const Index sum = std::accumulate(sizes.begin(), sizes.end(), Index{0});
            if (i + 1 < of_constants.size() && sum + of_constants[i + 1] <= most)
                continue;
            add(Dimension::segment, sizes, {3, 2}, [&](Index) { return sizes; }).partition =
                problem::PartitionRule::by_tensor;
            sizes.clear();
        }
    }
    for (const Index size : gate::edge_sizes(Dimension::model))
        add(Dimension::model, {size}, {3, 2, 4, 1}, [&](Index) { return Sizes{size}; });
    for (const Index size : gate::edge_sizes(Dimension::share))
        add(Dimension::share, {size}, {3, 2}, [&](Index ranks) { return Sizes{ranks * size}; }).density =
            0.1;
    for (const Index size : gate::edge_sizes(Dimension::selected)) {
        const auto selected = [&](std::initializer_list<int> ranks_to_choose) {
            // A tensor a rank, of which half is selected.
            Case& run = add(Dimension::selected, {size}, ranks_to_choose, [&](Index ranks) {
                Sizes sizes(static_cast<std::size_t>(ranks), 2);
                sizes.back() = 2 * (size - ranks + 1);
                return sizes;
            });
            run.density = 0.5;
            run.partition = problem::PartitionRule::by_tensor;
        };
        selected({3, 2});
        selected({1});
    }
    for (const Index size : gate::edge_sizes(Dimension::message))
        add(Dimension::message, {size}, {3, 2}, [&](Index ranks) {
            return Sizes{2 * ranks * size};
        }).density = 0.5;
    add(Dimension::inside, {}, {3}, [](Index) { return Sizes(40, 7); });
    add(Dimension::inside, {}, {3}, [](Index) { return Sizes{70'003}; }).density =
        1.0; // more selected values than 16 bits count
    return all;
}

} // namespace truestep::properties::scape
