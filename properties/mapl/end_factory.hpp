// The parts of an implementation of MAPL that the gate tests.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <truestep/distributed/mapl/ends.hpp>
#include <truestep/distributed/peers.hpp>
#include <truestep/problem/density.hpp>
#include <truestep/problem/problem.hpp>

#include "recording_peers.hpp"
#include "scenario.hpp"

namespace truestep::properties::mapl {

/// One side of a boundary under test; the interface is that of Sender and Receiver.
class AnySide {
  public:
    virtual ~AnySide() = default;
    [[nodiscard]] virtual Floats subspace() = 0;
    [[nodiscard]] virtual Floats anchor() = 0;
    [[nodiscard]] virtual Floats anchor_gradient() = 0;
    virtual void set_anchor(std::span<const float> table) = 0;
    [[nodiscard]] virtual EndState state() = 0;
};
class AnySender : public AnySide {
  public:
    virtual void forward(Index micro, std::span<const float> activations, std::span<const Id> ids) = 0;
    [[nodiscard]] virtual Floats backward(Index micro) = 0;
    virtual bool end_step(double rate) = 0;
    [[nodiscard]] virtual Floats subspace_gradient() = 0;
    /// The gradient before the mean over replicas.
    [[nodiscard]] virtual Floats own_subspace_gradient() = 0;
};
class AnyReceiver : public AnySide {
  public:
    /// Announces what `forward` will ask for, where the implementation has such a call.
    virtual void expect(Index /*micro*/, Index /*tokens*/) {}
    [[nodiscard]] virtual Receiver::ReceivedActivations forward(Index micro, Index tokens) = 0;
    virtual void backward(Index micro, std::span<const float> gradient) = 0;
    virtual void end_step() = 0;
};

/// The model that the ranks of a stage train together: the stage's own parameters, then the tables of
/// anchors at its sides.
struct StageModel {
    problem::Problem problem;
    std::vector<problem::Range> ranges;
    problem::DensitySchedule density;
};
/// `own` is the number of the stage's parameters; `masks_shared_tables` plants a known bug (section 22.1).
[[nodiscard]] StageModel stage_model(const Scenario& scenario, int stage, Index own,
                                     bool masks_shared_tables = false);

/// The optimizer of a stage, on one of its ranks.
class AnyTrainer {
  public:
    virtual ~AnyTrainer() = default;
    virtual void step(std::span<const float> gradient, double learning_rate) = 0;
    [[nodiscard]] virtual Floats parameters() = 0;
    /// Its state on this rank, from which it can continue.
    [[nodiscard]] virtual std::any state() = 0;
    virtual void restore(const std::any& state) = 0;
};
using StartsTrainer = std::function<std::unique_ptr<AnyTrainer>(const StageModel&, const Floats& parameters,
                                                                distributed::Communicator& replicas)>;

/// `replicas`: the ranks with the same side of the same boundary; nullptr if there is no trainer.
template <class Made>
using Starts = std::function<std::unique_ptr<Made>(const Settings&, EndState, RecordingPeers&, int peer,
                                                   distributed::Communicator* replicas)>;

struct EndFactory {
    Starts<AnySender> sender;
    Starts<AnyReceiver> receiver;
    /// Returns what a restart keeps of a state, where it goes through a file that is loaded with the
    /// settings `again`. Without this function it is all.
    std::function<EndState(const Settings&, const Settings& again, const EndState&, Side, int boundary)>
        kept{};
    StartsTrainer trainer{};
    /// The ranks over which a rank's trainer runs; without this function those of its stage.
    std::function<std::vector<int>(const Scenario&, int rank)> joined{};
    bool masks_shared_tables = false;
    bool any_names = false; ///< micro-batches need not go in the order of their numbers
};

/// The backend of an end of distributed/mapl, and the peers that go with it. Without them, the host's
/// backend and the given peers.
struct EndResources {
    std::unique_ptr<distributed::Peers> peers{};
    std::unique_ptr<Backend> backend{};
};
using Builds = std::function<EndResources(RecordingPeers& given, int peer)>;
[[nodiscard]] EndFactory ends_in(const Builds& build);

/// The ends of distributed/mapl, and the sharded SCAPE and AdamS of distributed/scape.
[[nodiscard]] EndFactory host_ends();
[[nodiscard]] StartsTrainer host_trainers();

} // namespace truestep::properties::mapl
