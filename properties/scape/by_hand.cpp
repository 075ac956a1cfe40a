#include "by_hand.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace scape::properties {

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

} // namespace scape::properties
