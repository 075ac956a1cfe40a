// Recomputes a case's segments, sums over groups and densities from the text, without problem/.
#include "by_hand.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace truestep::properties::scape {

std::vector<SegmentByHand> segments_by_hand(const Case& run) {
    const Index size = run.size();
    const Index share = size / run.workers + (size % run.workers == 0 ? 0 : 1);
    std::vector<SegmentByHand> segments;
    Index begin = 0;
    for (const problem::Tensor& tensor : run.tensors) {
        const Index end = begin + tensor.size;
        for (Index coordinate = begin; coordinate < end; ++coordinate) {
            const Index place = run.partition == problem::PartitionRule::by_shard
                                    ? coordinate / share
                                    : run.workers * (begin + end) / (2 * size);
            const auto owner = static_cast<int>(std::min<Index>(place, run.workers - 1));
            if (coordinate == begin || segments.back().owner != owner)
                segments.push_back({coordinate, coordinate, owner, tensor.always_dense});
            segments.back().end = coordinate + 1;
        }
        begin = end;
    }
    if (run.owners_in_turn)
        for (std::size_t number = 0; number < segments.size(); ++number)
            segments[number].owner = static_cast<int>(number % static_cast<std::size_t>(run.workers));
    return segments;
}

float sum_by_hand(const Case& run, const std::vector<float>& of_ranks) {
    if (run.groups.empty())
        return std::accumulate(of_ranks.begin() + 1, of_ranks.end(), of_ranks.front());
    float all = 0.0F;
    std::size_t rank = 0;
    for (std::size_t turn = 0; rank < of_ranks.size(); ++turn) {
        const int size = run.groups[turn % run.groups.size()];
        float of_group = of_ranks[rank++];
        for (int more = 1; more < size && rank < of_ranks.size(); ++more)
            of_group = of_group + of_ranks[rank++];
        all = turn == 0 ? of_group : all + of_group;
    }
    return all;
}

double density_by_hand(const Case& run, Index t) {
    if (run.schedule == DensityRule::jumps)
        return jumping_density(run, t);
    if (run.warm_up == 0)
        return run.density;
    const double way =
        t > run.warm_up ? 1.0 : static_cast<double>(t - 1) / static_cast<double>(run.warm_up);
    if (run.schedule == DensityRule::geometric)
        return run.start * std::pow(run.density / run.start, way);
    return run.start + (run.density - run.start) * way;
}

} // namespace truestep::properties::scape
