// Divides the coordinates among ranks, cuts them into segments, and computes each segment's k.
#include <truestep/problem/partition.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include <truestep/problem/error.hpp>

namespace truestep::problem {

namespace {

std::vector<Range> equal_ranges(Index size, int workers) {
    const Index length = size / workers + (size % workers != 0 ? 1 : 0);
    std::vector<Range> result;
    Index begin = 0;
    for (int rank = 0; rank < workers; ++rank) {
        const Index end = std::min(size, begin + length);
        result.push_back({begin, end});
        begin = end;
    }
    return result;
}

/// A tensor goes to the rank whose equal share of the vector holds the tensor's middle. Middles ascend with
/// the tensors, so each rank's tensors are contiguous, and no rank holds more than d/P plus its largest
/// tensor.
std::vector<Range> tensor_ranges(const Layout& layout, int workers) {
    __extension__ using Wide = __int128; // (2 begin + size) * workers may not fit in 64 bits
    std::vector<Range> result(static_cast<std::size_t>(workers));
    const std::size_t count = layout.tensors().size();
    std::size_t tensor = 0;
    Index begin = 0;
    for (int rank = 0; rank < workers; ++rank) {
        Index end = begin;
        for (; tensor < count; ++tensor) {
            const Wide doubled_middle = Wide(layout.begin(tensor)) + layout.end(tensor);
            if (doubled_middle * workers >= Wide(2) * layout.size() * (rank + 1) && rank + 1 < workers)
                break;
            end = layout.end(tensor);
        }
        result[static_cast<std::size_t>(rank)] = {begin, end};
        begin = end;
    }
    return result;
}

} // namespace

void check_workers(std::int64_t workers) {
    if (workers < 1 || workers > most_workers)
        throw Error("workers is " + std::to_string(workers) + "; it must be 1 to " +
                    std::to_string(most_workers));
}

std::vector<Range> ranges(const Layout& layout, int workers, PartitionRule rule) {
    check_workers(workers);
    return rule == PartitionRule::by_shard ? equal_ranges(layout.size(), workers)
                                           : tensor_ranges(layout, workers);
}

std::vector<Segment> segments(const Layout& layout, const std::vector<Range>& ranges) {
    std::vector<Segment> result;
    for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
        Index begin = ranges[rank].begin;
        while (begin < ranges[rank].end) {
            const std::size_t tensor = layout.tensor_at(begin);
            const Index end = std::min(ranges[rank].end, layout.end(tensor));
            result.push_back({begin, end, static_cast<int>(rank), layout.tensors()[tensor].always_dense});
            begin = end;
        }
    }
    return result;
}

std::vector<Segment> checked_segments(const Layout& layout, int workers, std::vector<Segment> segments) {
    Index covered = 0;
    for (std::size_t number = 0; number < segments.size(); ++number) {
        Segment& segment = segments[number];
        const std::string where = "segments: segment " + std::to_string(number) + " [" +
                                  std::to_string(segment.begin) + ", " + std::to_string(segment.end) + ")";
        if (segment.begin != covered)
            throw Error(where + " does not begin at " + std::to_string(covered) +
                        ", where the one before it ends; segments must ascend and cover every parameter");
        if (segment.end <= segment.begin || segment.end > layout.size())
            throw Error(where + " is empty or reaches past the last of " + std::to_string(layout.size()) +
                        " parameters; correct its end");
        const std::size_t tensor = layout.tensor_at(segment.begin);
        if (segment.end > layout.end(tensor))
            throw Error(where + " reaches past the end of tensor " + layout.tensors()[tensor].name +
                        " at " + std::to_string(layout.end(tensor)) + "; a segment lies inside one tensor");
        if (segment.owner < 0 || segment.owner >= workers)
            throw Error(where + " has owner " + std::to_string(segment.owner) + "; an owner is 0 to " +
                        std::to_string(workers - 1));
        segment.always_dense = layout.tensors()[tensor].always_dense;
        covered = segment.end;
    }
    if (covered != layout.size())
        throw Error("segments: they end at " + std::to_string(covered) + " of " +
                    std::to_string(layout.size()) + " parameters; they must cover every parameter");
    return segments;
}

Index selected_count(const Segment& segment, double density, KRounding rounding) {
    const Index size = segment.size();
    if (segment.always_dense)
        return size;
    const double product = density * static_cast<double>(size);
    const double rounded = rounding == KRounding::floor ? std::floor(product) : std::ceil(product);
    return std::min(size, std::max<Index>(1, static_cast<Index>(rounded)));
}

} // namespace truestep::problem
