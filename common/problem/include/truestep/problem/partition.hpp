// Which rank owns which coordinates, and the segments in which each takes the top k.
#pragma once

#include <vector>

#include <truestep/problem/layout.hpp>

namespace truestep::problem {

/// A piece of one tensor in which its owner, and only its owner, takes the top k.
struct Segment {
    Index begin = 0;
    Index end = 0;
    int owner = 0;
    bool always_dense = false; ///< taken from the tensor that holds it

    [[nodiscard]] Index size() const { return end - begin; }
    friend bool operator==(const Segment&, const Segment&) = default;
};

/// More than any cluster has: a guard against typing errors.
constexpr int most_workers = 1 << 20;

/// Throws truestep::Error unless 1 <= workers <= most_workers.
void check_workers(std::int64_t workers);

enum class PartitionRule {
    by_shard,  ///< P ranges of ceil(d/P) coordinates, the last ones shorter or empty
    by_tensor, ///< whole tensors, contiguous, balanced by element count
};

/// One contiguous range per rank, ascending, covering the vector; some may be empty (section 2).
[[nodiscard]] std::vector<Range> ranges(const Layout& layout, int workers, PartitionRule rule);

/// The ranges cut at the tensors' borders: the segments, ascending and covering the vector.
[[nodiscard]] std::vector<Segment> segments(const Layout& layout, const std::vector<Range>& ranges);

/// Accepts segments that were made elsewhere, with any owners. Throws truestep::Error unless they
/// ascend, cover the vector, lie inside one tensor each and have an owner in [0, workers). Sets
/// `always_dense` by the layout.
[[nodiscard]] std::vector<Segment> checked_segments(const Layout& layout, int workers,
                                                    std::vector<Segment> segments);

enum class KRounding {
    floor, ///< the rule
    ceil,  ///< the rule of an older version of the artifact; read, never the default
};

/// k of a segment of `size` coordinates: min(n, max(1, floor(density * n))), the product in double
/// (section 4.3).
[[nodiscard]] Index selected_count(const Segment& segment, double density, KRounding rounding);

} // namespace truestep::problem
