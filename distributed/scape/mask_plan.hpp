#pragma once

#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include <truestep/distributed/scape/mask_code.hpp>
#include <truestep/problem/problem.hpp>

namespace truestep::distributed::scape {

/// How much a coming mask selects where, and where each rank's code of it lies. It reuses the lists
/// of the mask before, once that has arrived.
class MaskPlan {
  public:
    void make(const problem::Problem& problem, double density, int me, bool is_coded) {
        all_.clear();
        sizes_.clear();
        selected_.clear();
        for (int rank = 0; rank < problem.workers; ++rank) {
            const std::size_t first = all_.size();
            Index selected = 0;
            for (const problem::Segment& segment : problem.segments)
                if (segment.owner == rank) {
                    all_.push_back({segment.begin, segment.end,
                                    selected_count(segment, density, problem.settings.k_rounding)});
                    selected += all_.back().k;
                }
            const auto of_rank = std::span<const MaskCode::Part>(all_).subspan(first);
            sizes_.push_back(is_coded ? MaskCode::bytes(of_rank) : 0);
            selected_.push_back(selected);
            if (rank == me) {
                own_begin_ = first;
                own_end_ = all_.size();
            }
        }
    }

    /// The parts of all ranks in order, and those of this rank.
    [[nodiscard]] std::span<const MaskCode::Part> all() const { return all_; }
    [[nodiscard]] std::span<const MaskCode::Part> own() const {
        return all().subspan(own_begin_, own_end_ - own_begin_);
    }
    /// The bytes of each rank; of those before a rank, and of all.
    [[nodiscard]] std::span<const std::size_t> sizes() const { return sizes_; }
    [[nodiscard]] std::size_t bytes_before(int rank) const {
        return std::accumulate(sizes_.begin(), sizes_.begin() + rank, std::size_t{0});
    }
    [[nodiscard]] std::size_t bytes() const { return bytes_before(static_cast<int>(sizes_.size())); }
    /// The selected coordinates of each rank.
    [[nodiscard]] const std::vector<Index>& selected() const { return selected_; }

  private:
    std::vector<MaskCode::Part> all_;
    std::size_t own_begin_ = 0;
    std::size_t own_end_ = 0;
    std::vector<std::size_t> sizes_;
    std::vector<Index> selected_;
};

} // namespace truestep::distributed::scape
