#pragma once

#include <memory>
#include <span>

#include <truestep/distributed/gasloc/state.hpp>
#include <truestep/distributed/local.hpp>

namespace truestep::distributed::gasloc {

/// Holds one worker's vectors and computes on them. The worker calls the functions in the order of
/// section 13; communication happens between the calls, and never in a backend.
///
/// It may compute asynchronously: only functions that return a value have to wait.
class Backend {
  public:
    virtual ~Backend() = default;

    /// Called first, and again to continue from another state. The vectors have the sizes that the
    /// settings require.
    virtual void begin(State state, Momentum momentum) = 0;

    /// One inner step: x and moments. The first one of a round reads theta and the moments with
    /// which it began, and does not change them. False if the gradient is not finite: x is then
    /// invalid.
    [[nodiscard]] virtual bool inner(distributed::InnerRule rule, const distributed::Scalars& scalars,
                                     bool first, const float* gradient) = 0;
    /// Replaces x by y (section 13.3), or by the bits of theta if no inner step counts.
    virtual void make_y(bool drifts, float eta) = 0;
    /// y for a neighbour, which may read it as long as it is held: a worker that is a round ahead
    /// computes in another vector.
    [[nodiscard]] virtual std::shared_ptr<const void> lend_y() = 0;
    /// Sections 13.4 and 13.5 on coordinates [begin, end). The neighbours' data lies where the
    /// backend computes. False if a theta is not finite.
    [[nodiscard]] virtual bool gossip(const distributed::Gossip& gossip, Index begin, Index end) = 0;
    /// How many coordinates to process at a time while more arrive.
    [[nodiscard]] virtual Index piece() const = 0;
    /// Keeps the moments of the inner steps, or restores the old ones; y becomes the base of the
    /// momentum.
    virtual void end_round(bool keeps) = 0;

    /// x, or theta, in the host's memory; valid until the next call.
    [[nodiscard]] virtual std::span<const float> parameters(bool of_x) = 0;
    /// The same in the backend's memory, complete once the last function with a result has
    /// returned.
    [[nodiscard]] virtual const float* in_place(bool of_x) = 0;
    /// The state between two rounds, without its counters.
    [[nodiscard]] virtual State state() = 0;
};

} // namespace truestep::distributed::gasloc
