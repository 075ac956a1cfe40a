// The work of a step of dense training on vectors, in the memory where they are.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <truestep/distributed/dense/norm.hpp>
#include <truestep/distributed/dense/state.hpp>

namespace truestep::distributed::dense {

/// Additions of the ranks' sums, in their order: the second is added to the first.
using Merges = std::vector<std::pair<int, int>>;

/// The worker decides when each of these is due, and what travels: it gives the buffers to its
/// communicator, which has to reach them.
class Backend {
  public:
    virtual ~Backend() = default;

    /// Takes over what this rank owns.
    virtual void begin(const Problem& problem, const Ownership& ownership, int rank, State& state) = 0;
    /// Adds the gradient of micro-batch `number` of this step, from 0 on. False if one of its values is not
    /// acceptable. One that is `lent` is the only one, and stays as it is until the step ends; the caller
    /// may overwrite others afterwards.
    virtual bool add(std::span<const float> gradient, Index number, bool lent) = 0;
    /// The sum of `count` micro-batches; of sharded ranks it is packed, rank after rank.
    virtual const void* sum(Index count) = 0;
    /// Where all ranks' sums of what this rank owns go, rank after rank; sum() itself if none has to move.
    virtual void* parts() = 0;
    /// Makes the mean of the parts.
    virtual void make_mean(const Merges& merges, float divisor) = 0;
    /// The sum of squares of each of these stretches of the mean.
    [[nodiscard]] virtual std::vector<double> square_sums(const GlobalNorm::Parts& stretches) = 0;
    /// The values of these stretches of the mean.
    [[nodiscard]] virtual std::vector<float> values(const GlobalNorm::Parts& stretches) = 0;
    virtual void scale(float factor) = 0;
    /// Step t of every rule on what this rank owns.
    virtual void update(const std::vector<double>& rates, Index t) = 0;
    /// Whether parameters and first moments are finite.
    [[nodiscard]] virtual bool is_finite() = 0;
    /// What this rank owns as it travels: fp32 numbers, or two bytes each with copies.
    virtual const void* own() = 0;
    /// Where all ranks' go, rank after rank; own() itself if none has to move.
    virtual void* all() = 0;
    /// Makes the parameters of what is in all(), or of own() where nothing is sharded.
    virtual void show() = 0;

    [[nodiscard]] virtual std::span<const float> parameters() = 0;
    /// Brings the state up to date.
    virtual void fetch(State& state) = 0;
};

/// In this process' memory.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend(int threads);

} // namespace truestep::distributed::dense
