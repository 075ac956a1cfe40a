// Trainings of implementations of SCAPE.
#pragma once

#include <filesystem>
#include <vector>

#include <truestep/properties/scape/implementations.hpp>

namespace truestep::properties::scape {

/// Passes on the visible state of a rank.
void show(GradientSource& live, int rank, const ObservedState& view);

/// All ranks of an implementation at once.
class Lockstep {
  public:
    virtual ~Lockstep() = default;
    [[nodiscard]] virtual std::vector<ObservedState> views() = 0;
    [[nodiscard]] virtual std::vector<Outcome> step(const Action& action) = 0;
    /// Continues with new ranks from what these save; does nothing if they cannot.
    virtual void restart() = 0;
};

/// Implementation::train() for these ranks.
void train_in_lockstep(const Setup& setup, GradientSource& live, Lockstep& ranks);

/// The same for one rank, called on each of them. `folder` is an empty one for restarts; none: it continues
/// without.
void train_rank(const ImplementationSpec& ranked, const Setup& setup, GradientSource& live,
                const std::filesystem::path& folder, distributed::Communicator& ranks);

} // namespace truestep::properties::scape
