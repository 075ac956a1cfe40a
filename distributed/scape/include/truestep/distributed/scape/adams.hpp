#pragma once

#include <span>
#include <string>
#include <vector>

#include <truestep/distributed/aligned.hpp>
#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/problem.hpp>

namespace truestep::distributed::scape {

/// One rank of dense AdamS (section 3), sharded as users run it today: the gradient is reduced to
/// its owners, each updates its shard and keeps the shard's moment, and the parameters are
/// gathered. It is the baseline.
class AdamS {
  public:
    using Options = Scape::Options;

    AdamS(problem::Problem problem, std::vector<problem::Range> ranges, std::span<const float> parameters,
          Communicator& communicator, Options options);

    /// Like Scape::step.
    void step(std::span<const float> gradient, double learning_rate);

    [[nodiscard]] Index steps() const { return steps_; }
    [[nodiscard]] const Statistics& statistics() const { return statistics_; }
    [[nodiscard]] std::span<const float> parameters() const { return w_; }
    [[nodiscard]] std::span<const float> shard_moment() const { return m_; } ///< of this rank's range
    [[nodiscard]] const problem::Range& shard() const;
    /// Continues from earlier steps(), parameters() and shard_moment() on all ranks, with this
    /// rank's own moment. Throws truestep::Error if they are another model's.
    void restore(Index steps, std::span<const float> parameters, std::span<const float> shard_moment);

  private:
    int exchange(std::span<const float> gradient, const std::vector<std::size_t>& by_owner);

    problem::Problem problem_;
    std::vector<problem::Range> ranges_;
    Communicator& communicator_;
    Options options_;
    AlignedFloats w_;
    AlignedFloats m_;
    AlignedFloats received_;
    Index steps_ = 0;
    std::string halted_;         ///< why no step can be taken; else empty
    RestoredDigests restored_{}; ///< of the state restored since the last step
    Statistics statistics_;
};

} // namespace truestep::distributed::scape
