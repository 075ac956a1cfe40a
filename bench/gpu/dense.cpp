// Compares a device's dense steps of AdamW and AdamS with the host's, bit for bit.
#include "gpu/dense.hpp"

#include <bit>
#include <cstdint>

#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/distributed/scape/adams.hpp>

#include "gpu/algorithms.hpp"
#include "peers/arithmetic.hpp"
#include "peers/peer.hpp"

namespace truestep::gpu::bench {

namespace {

constexpr double learning_rate = 1e-3;

std::vector<float> drawn(std::uint64_t seed, Index size) {
    std::vector<float> values;
    for (Index index = 0; index < size; ++index)
        values.push_back(counter_value(seed, index));
    return values;
}

std::vector<float> by_the_host(const DenseSteps& steps) {
    const auto size = static_cast<Index>(steps.parameters.size());
    distributed::InProcessGroup group(1);
    const auto communicator = group.communicator(0);
    distributed::InProcessPeers links(1);
    const auto alone = links.peers(0);
    const auto take = [&](auto& optimizer) {
        for (const std::vector<float>& gradient : steps.gradients)
            optimizer.step(gradient, learning_rate);
        const auto parameters = optimizer.parameters();
        return std::vector<float>(parameters.begin(), parameters.end());
    };
    if (steps.kind == Dense::adamw)
        return take(*peers::make_peer("adamw", {size, 1.0, {}}, {*communicator, *alone}, steps.parameters));
    const problem::Layout layout({{"all", size, false}});
    distributed::scape::AdamS adams(
        problem::make_problem(problem::Algorithm::adams, 1, layout, problem::PartitionRule::by_shard, {}),
        {{0, size}}, steps.parameters, *communicator, {});
    return take(adams);
}

} // namespace

Index wrong_parameters(Dense kind, Index size, const TakeDenseSteps& take) {
    constexpr problem::Index count = 3;
    DenseSteps steps{kind, {}, {}, drawn(1, size)};
    for (Index step = 1; step <= count; ++step) {
        steps.scalars.push_back(peers::scalars_of({}, 1, step, learning_rate));
        steps.gradients.push_back(drawn(static_cast<std::uint64_t>(step) + 1, size));
    }
    const std::vector<float> wanted = by_the_host(steps);
    const std::vector<float> found = take(steps);
    Index wrong = static_cast<Index>(wanted.size()) - static_cast<Index>(found.size());
    for (std::size_t i = 0; i < wanted.size() && i < found.size(); ++i)
        wrong += std::bit_cast<std::uint32_t>(wanted[i]) != std::bit_cast<std::uint32_t>(found[i]) ? 1 : 0;
    return wrong;
}

} // namespace truestep::gpu::bench
