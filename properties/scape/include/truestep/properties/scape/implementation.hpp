// What an implementation of SCAPE or AdamS is asked and shows, and the scenarios that it runs.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/counting.hpp>
#include <truestep/gate/implementation.hpp>
#include <truestep/gate/learning.hpp>
#include <truestep/problem/density.hpp>
#include <truestep/problem/partition.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/properties/scape/damage.hpp>

namespace truestep::properties::scape {

using problem::Index;
using Gradients = std::vector<std::vector<float>>; ///< one per rank

/// A state that gradients may never reach from the start of a run. w is given elsewhere.
struct InitialState {
    Index step = 0;                           ///< steps taken
    std::vector<std::vector<float>> residual; ///< by rank
    std::vector<std::uint8_t> mask;           ///< of the next step, as bits
    std::vector<float> moment{};              ///< the last step's mask had all of them; empty: m is +0
};

/// The input of one rank of an implementation.
struct Setup {
    problem::Problem problem;
    std::vector<problem::Range> ranges; ///< by rank: what it reduces and selects
    problem::DensitySchedule density = problem::DensitySchedule::constant(1.0);
    std::vector<float> parameters;
    std::size_t variant = 0; ///< the way to split the work (Implementation::variants)
    std::optional<InitialState> begun = std::nullopt; ///< only if ImplementationSpec::takes_states
};

/// A rank's report of its step, beside its state.
struct StepReport {
    Index step = 0;
    Index selected = 0; ///< coordinates of the mask that it used
    /// How many of those were in the mask before, too; 0 for AdamS. Not compared after a restore, since a
    /// checkpoint need not hold that mask.
    Index kept = 0;
    double gradient_norm = 0.0; ///< of ghat before clipping; 0 without clipping
    float clip_factor = 1.0F;
    distributed::Bytes sent{}; ///< to other ranks, by kind
};

/// The visible state of a rank, in vectors of full length.
struct ObservedState {
    Index step = 0; ///< steps taken
    std::vector<float> parameters;
    std::vector<float> moment;
    std::vector<float> residual;
    std::vector<std::uint8_t>
        mask; ///< of the last step, as section 9 stores it; the bits beyond d are its own
    std::optional<StepReport> told = std::nullopt; ///< optional

    /// The members for gate::Record.
    void fields(auto& visit) { visit(step, parameters, moment, residual, mask, told); }
};

/// One rank of an implementation under test. All ranks call the same functions in the same order.
class RankUnderTest {
  public:
    virtual ~RankUnderTest() = default;
    /// May throw distributed::scape::RefusedStep, distributed::scape::Halted, or any other error.
    virtual void step(std::span<const float> gradient, double learning_rate) = 0;
    /// Takes a part of the gradient before step() takes the last one (section 20). The buffer is
    /// overwritten after the call. Called only if ImplementationSpec::takes_parts.
    virtual void accumulate(std::span<const float> /*gradient*/) { throw takes_no_parts(); }
    /// Tells that the values of these tensors (by number) in the coming step()'s gradient are ready. The
    /// gradient has its full length; other values may be anything. A tensor without coordinates need not
    /// come.
    virtual void bucket(std::span<const std::size_t> /*tensors*/, std::span<const float> /*gradient*/) {
        throw takes_no_parts();
    }
    /// Must not wait for the coming mask or change anything: the gate looks between steps. Before the first
    /// step, parameters are the initial ones, moment and residual are +0 in full length, and the mask may
    /// hold anything, since it is not compared. The same holds for the mask after a refused step, and for
    /// the first look after restore().
    [[nodiscard]] virtual ObservedState view() = 0;
    /// The mask of the next step; waits for it.
    [[nodiscard]] virtual std::vector<std::uint8_t> coming() = 0;
    /// Section 7, on all ranks: saves into an empty folder, and restores from one that as many or other
    /// ranks have written; into a new object, or over a live one with its coming mask in flight. A
    /// checkpoint that cannot be restored ends in an exception on all ranks, and the object stays
    /// unchanged.
    virtual void save(const std::filesystem::path& folder) = 0;
    virtual void restore(const std::filesystem::path& folder) = 0;

    /// Begins at a given state, before anything else. Called only if ImplementationSpec::takes_states.
    virtual void begin_at(const InitialState& /*state*/) {
        throw std::logic_error("the candidate takes no states; leave Ranked::takes_states false");
    }

  private:
    [[nodiscard]] static std::logic_error takes_no_parts() {
        return std::logic_error("the candidate takes no parts; leave Ranked::takes_parts false");
    }
};

using MakeRank = std::function<std::unique_ptr<RankUnderTest>(const Setup& setup,
                                                              distributed::Communicator& communicator)>;

/// One rank fails in an action, or gets a damaged mask.
struct Fault {
    int rank = 0;
    bool leaves = false;                 ///< it ends silently before the action; else its link is lost
    std::uint64_t exchanges = 0;         ///< how many it can still start
    std::optional<std::uint64_t> damage; ///< neither, but masks come damaged (CountingCommunicator::damage)
};

/// Invalid buckets (section 20). The step must end with an error on all ranks, and is recorded as refused.
struct InvalidBuckets {
    int rank = -1; ///< the rank that gives them; -1: all do
    std::vector<std::vector<std::size_t>> buckets;
};

/// An action of all ranks at the same time.
struct Action {
    enum class Kind : std::uint8_t {
        step,
        restart,
        disturb,
        undo,
        damage, ///< like undo, but a file of the checkpoint is damaged before it is restored
    };
    Kind kind = Kind::step;
    Gradients gradients; ///< step; undo, damage: of a step after which the state before it is restored
    /// The parts whose sum the gradients are (section 20). If a property has changed a value of the
    /// gradients, that value comes in one part.
    std::vector<Gradients> parts;
    std::vector<std::vector<std::size_t>> buckets; ///< of tensors; none: at once
    std::optional<InvalidBuckets> miscut;          ///< step
    double learning_rate = 0.0;
    int odd_rank = -1;                       ///< whose rate differs in a bit
    std::optional<problem::Problem> problem; ///< restart: with the new number of workers
    std::vector<problem::Range> ranges;
    distributed::Disturbance disturbance; ///< disturb: from here to the next restart
    std::optional<Fault> fault;           ///< step, and only for ranks that are threads of one process
    Damage damage{};                      ///< damage

    [[nodiscard]] double rate_of(int rank) const {
        return rank == odd_rank ? std::nextafter(learning_rate, 1.0) : learning_rate;
    }
};

/// One rank that starts with a different setup.
struct DissentingRank {
    int rank = 0;
    Setup setup;
};

/// A run for an implementation.
struct Scenario {
    Setup setup;
    std::vector<Action> actions;
    std::optional<DissentingRank> odd = std::nullopt; ///< only for ranks that compare what they were given
};

/// The outcome of an action on one rank.
struct Outcome {
    enum class Kind : std::uint8_t { taken, refused, halted };
    Kind kind = Kind::taken;
    std::string text; ///< of the refusal
    int rank = 0;     ///< the rank that the refusal names
    Index index = 0;
    float value = 0.0F;
    /// damage: what was done to which file; `kind` tells whether the ranks accepted the checkpoint (taken)
    /// or not (refused). Empty if there was no file, and so nothing to restore.
    std::string damaged;
    distributed::Bytes sent{}; ///< in this action, counted outside the implementation
    distributed::CountingCommunicator::Counts exchanges{};

    void fields(auto& visit) { visit(kind, text, rank, index, value, damaged, sent, exchanges); }
};

struct ActionRecording {
    std::vector<ObservedState> views;
    std::vector<Outcome> outcomes;
};

/// The recording of a run, from all ranks.
struct RunRecording {
    std::vector<ActionRecording> after;            ///< by action
    std::vector<std::vector<std::uint8_t>> coming; ///< at the end, one per rank
    std::string
        error; ///< empty, or why the run ended before its end: a crash of a rank, a hang, another error
    bool fault_came = false;        ///< an action's fault took place
    std::vector<std::string> ended; ///< by rank: the error that ended it; empty if it completed
};

/// The state that an implementation shows beside its parameters. What it does not show is empty in a
/// history, and not compared.
struct VisibleState {
    bool moment = true;
    bool residual = true;
    bool mask = true;
    bool next_mask = true; ///< RunRecording::coming

    [[nodiscard]] bool all() const { return moment && residual && mask && next_mask; }
};

/// The limit for implementations that do not set one.
constexpr Index usual_parameters = 200'000;

using gate::GradientSource;
using gate::sum_of;

/// Any implementation that can run a scenario.
class Implementation : public gate::Implementation {
  public:
    [[nodiscard]] virtual VisibleState shows() const { return {}; }
    [[nodiscard]] virtual problem::Algorithm algorithm() const { return problem::Algorithm::scape; }
    /// The limit for standing cases: larger ones take it too long.
    [[nodiscard]] virtual Index most_parameters() const { return usual_parameters; }
    /// Whether gradients come in parts and buckets, some of them invalid (Action::miscut).
    [[nodiscard]] virtual bool takes_parts() const { return false; }
    /// Whether scenarios may have an odd rank, or parameters that are not finite.
    [[nodiscard]] virtual bool compares_starts() const { return false; }
    /// Whether an error about ranks that differ names the field in our words.
    [[nodiscard]] virtual bool names_differences() const { return false; }
    [[nodiscard]] virtual RunRecording run(const Scenario& scenario) const = 0;
    /// Trains from the setup's parameters until `live` ends. Throws what a rank throws, and
    /// std::runtime_error if a step is refused or halts.
    virtual void train(const Setup& setup, GradientSource& live) const;
};

} // namespace truestep::properties::scape
