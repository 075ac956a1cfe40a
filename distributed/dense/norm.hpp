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
    GlobalNorm(const Problem& problem, const Ownership& ownership);

    /// The norm of all ranks' packed means; all ranks call it and get the same bits.
    [[nodiscard]] double of(const float* packed, Communicator& ranks) const;

  private:
    /// Values of one block that lie one after the other in a rank's packed vector.
    struct Part {
        std::size_t block = 0;
        Index in_block = 0;
        Index in_packed = 0;
        Index size = 0;
    };
    using Parts = std::vector<Part>;

    std::vector<Index> sizes_; ///< of the blocks
    std::vector<Parts> whole_; ///< of each rank
    std::vector<Parts> cut_;   ///< of each rank
    bool sharded_;
};

} // namespace truestep::distributed::dense
