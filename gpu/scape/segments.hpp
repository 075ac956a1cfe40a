#pragma once

// How the segments of a message are cut up for blocks. Only their begins, ends and ks matter.

#include <algorithm>
#include <span>
#include <vector>

#include <truestep/distributed/scape/mask_code.hpp>
#include <truestep/problem/problem.hpp>

#include "algorithms/code.hpp"
#include "algorithms/local.hpp"

namespace truestep::gpu::scape {

using distributed::scape::MaskCode;

/// The problem's coordinates. Throws truestep::Error for a segment too large for the counts of
/// blocks.
[[nodiscard]] Index checked_size(const problem::Problem& problem);

/// Cuts segments into groups for selection, at tiles of the vector.
[[nodiscard]] std::vector<Group> groups_of(std::span<const MaskCode::Part> own, Index group_tiles);
/// The tiles that a local pass looks at for the selection: from the first to the last that any
/// group touches.
struct WatchedTiles {
    Index first = 0;
    std::vector<WatchedTile> tiles;
};
[[nodiscard]] WatchedTiles watched_tiles_of(const std::vector<Group>& groups);
[[nodiscard]] Index cell_count(const std::vector<Group>& groups);
/// Cuts segments into tiles of code, counted from the segment's begin.
[[nodiscard]] std::vector<Group> code_tiles_of(std::span<const MaskCode::Part> all);
/// Cuts segments at chunks of a mask of `size` coordinates, in ascending order; `first` has the
/// number of each chunk's first piece, and the total.
struct Pieces {
    std::vector<Group> pieces;
    std::vector<Index> first;
};
[[nodiscard]] Pieces pieces_of(std::span<const MaskCode::Part> all, Index size);

/// The segments as blocks see them; `parts` are a message's, in ascending order.
[[nodiscard]] std::vector<Segment> rows_of(std::span<const MaskCode::Part> segments,
                                           const std::vector<Group>& parts);

/// A message's segments in a machine's memory, and their parts, which depend on begins and ends
/// alone.
template <class Machine>
class SegmentTable {
  public:
    /// Returns true if begins or ends have changed; then anything sized by them is stale, and cut()
    /// makes the new parts.
    template <class Cut>
    [[nodiscard]] bool set(Machine& machine, std::span<const MaskCode::Part> segments, const Cut& cut) {
        const auto same_place = [](const MaskCode::Part& a, const MaskCode::Part& b) {
            return a.begin == b.begin && a.end == b.end;
        };
        const auto same = [&](const MaskCode::Part& a, const MaskCode::Part& b) {
            return same_place(a, b) && a.k == b.k;
        };
        if (std::ranges::equal(known_, segments, same))
            return false;
        const bool same_places = std::ranges::equal(known_, segments, same_place);
        known_.assign(segments.begin(), segments.end());
        if (!same_places) {
            cut_ = cut();
            place(machine, parts_, cut_);
        }
        place(machine, segments_, rows_of(segments, cut_));
        return !same_places;
    }
    /// Makes the next set() count as a change.
    void forget() { known_.clear(); }

    [[nodiscard]] const Segment* segments() const { return segments_.data(); }
    [[nodiscard]] const Group* parts() const { return parts_.data(); }
    [[nodiscard]] Index segment_count() const { return segments_.size(); }
    [[nodiscard]] Index part_count() const { return parts_.size(); }

    template <class T>
    using Vector = typename Machine::template Vector<T>;

    template <class T>
    static void place(Machine& machine, Vector<T>& to, const std::vector<T>& from) {
        machine.resize(to, static_cast<Index>(from.size()));
        machine.upload(to.data(), from.data(), to.size());
    }

  private:
    std::vector<MaskCode::Part> known_;
    std::vector<Group> cut_;
    Vector<Segment> segments_;
    Vector<Group> parts_;
};

} // namespace truestep::gpu::scape
