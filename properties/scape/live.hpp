#pragma once

#include <filesystem>
#include <vector>

#include <truestep/properties/scape/implementations.hpp>

namespace truestep::properties::scape {

/// All that a rank shows of itself.
void show(Live& live, int rank, const View& view);

/// All ranks of an implementation, at once.
class Lockstep {
  public:
    virtual ~Lockstep() = default;
    [[nodiscard]] virtual std::vector<View> views() = 0;
    [[nodiscard]] virtual std::vector<Outcome> step(const Action& action) = 0;
    /// New ranks go on from what these save; nothing where they cannot.
    virtual void restart() = 0;
};

/// Implementation::train() over it.
void train_in_lockstep(const Setup& setup, Live& live, Lockstep& ranks);

/// The same of one rank, as each of them is called. `folder`, an empty one, is for restarts; none: it goes
/// on without.
void train_rank(const Ranked& ranked, const Setup& setup, Live& live, const std::filesystem::path& folder,
                distributed::Communicator& ranks);

} // namespace truestep::properties::scape
