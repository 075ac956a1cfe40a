#pragma once

#include <memory>
#include <span>

#include <truestep/distributed/gasloc/state.hpp>
#include <truestep/distributed/local.hpp>

namespace truestep::distributed::gasloc {

/// Where one worker's vectors stand, and who computes on them. The worker calls these in the order of
/// section 13; what lies between two calls is the peers'. A backend never communicates.
///
/// It may compute behind its caller's back: only what returns a value has to wait.
class Backend {
  public:
    virtual ~Backend() = default;

    /// Before anything else, and wherever another state is gone on from. The vectors have the sizes that
    /// the settings ask for.
    virtual void begin(State state, Momentum momentum) = 0;

    /// One inner step: x and moments. The first one of a round reads theta and the moments that it began
    /// with, and leaves them alone. False if the gradient is not finite: x is of no use then.
    [[nodiscard]] virtual bool inner(distributed::InnerRule rule, const distributed::Scalars& scalars,
                                     bool first, const float* gradient) = 0;
    /// y in x's place: section 13.3, and theta's bits where no inner step counts.
    virtual void make_y(bool drifts, float eta) = 0;
    /// y for a neighbour, who reads it for as long as it is held: whoever is a round ahead computes in
    /// another vector.
    [[nodiscard]] virtual std::shared_ptr<const void> lend_y() = 0;
    /// Sections 13.4 and 13.5 on coordinates [begin, end). What neighbours have brought stands where the
    /// backend computes. False if a theta is not finite.
    [[nodiscard]] virtual bool gossip(const distributed::Gossip& gossip, Index begin, Index end) = 0;
    /// How many coordinates suit it at a time, while more are on their way.
    [[nodiscard]] virtual Index piece() const = 0;
    /// The moments of the inner steps are kept, or taken back; y becomes what the momentum is made of.
    virtual void end_round(bool keeps) = 0;

    /// x, or theta, in the host's memory; valid until the next call.
    [[nodiscard]] virtual std::span<const float> parameters(bool of_x) = 0;
    /// The same where they stand, complete when the last verdict has been told.
    [[nodiscard]] virtual const float* in_place(bool of_x) = 0;
    /// Between two rounds, without its counters.
    [[nodiscard]] virtual State state() = 0;
};

} // namespace truestep::distributed::gasloc
