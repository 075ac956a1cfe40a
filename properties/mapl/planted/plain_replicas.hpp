// What replicas of the plain ends share.
#pragma once

#include <vector>

#include "plain.hpp"

namespace truestep::properties::mapl::plain {

/// The mean of what all replicas have; each makes a piece.
[[nodiscard]] std::vector<float> mean_over_replicas(Wrong wrong, distributed::Communicator& replicas,
                                                    const std::vector<float>& own);

/// Throws truestep::Error unless all replicas have the same.
void expect_same(distributed::Communicator& replicas, const std::vector<float>& own);

/// The reference's SCAPE or AdamS on every rank, over the gradients of all.
[[nodiscard]] StartsTrainer plain_trainers(Wrong wrong);

} // namespace truestep::properties::mapl::plain
