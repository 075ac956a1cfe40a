// The global norm of a mean that ranks hold in pieces.
#pragma once

#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/dense/ownership.hpp>

namespace truestep::distributed::dense {

/// The norm's blocks begin anew at each tensor, and their order does not depend on the owners. An owner
/// makes the sums of the blocks that it has whole. The values of a block that a border cuts travel to
/// all ranks, which make its sum themselves.
class GlobalNorm {
  public:
    /// Values of one block that lie one after the other in a rank's packed vector.
    struct Part {
        std::size_t block = 0;
        Index in_block = 0;
        Index in_packed = 0;
        Index size = 0;
    };
    using Parts = std::vector<Part>;

    GlobalNorm(const Problem& problem, const Ownership& ownership);

    /// What a rank has of whole blocks, and of cut ones.
    [[nodiscard]] const Parts& whole(int rank) const { return whole_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] const Parts& cut(int rank) const { return cut_[static_cast<std::size_t>(rank)]; }

    /// The norm of all ranks' packed means, from this rank's sums of its whole blocks and values of its cut
    /// ones; all ranks call it and get the same bits.
    [[nodiscard]] double of(std::vector<double> sums, const std::vector<float>& values,
                            Communicator& ranks) const;

  private:
    std::vector<Index> sizes_; ///< of the blocks
    std::vector<Parts> whole_; ///< of each rank
    std::vector<Parts> cut_;   ///< of each rank
    bool sharded_;
};

/// The sum of squares of at most one block, in its order.
[[nodiscard]] double square_sum(const float* values, Index size);

} // namespace truestep::distributed::dense
