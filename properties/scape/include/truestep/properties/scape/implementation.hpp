#pragma once

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

/// A state that gradients from the start of a run may never lead to: of w as it is given, and m of +0.
struct Begun {
    Index step = 0;                           ///< steps taken
    std::vector<std::vector<float>> residual; ///< by rank
    std::vector<std::uint8_t> mask;           ///< of the next step, as bits
};

/// What one rank of an implementation is made from.
struct Setup {
    problem::Problem problem;
    std::vector<problem::Range> ranges; ///< of the ranks: who reduces and selects what
    problem::DensitySchedule density = problem::DensitySchedule::constant(1.0);
    std::vector<float> parameters;
    std::size_t variant = 0;                   ///< of the ways to split the work (Implementation::variants)
    std::optional<Begun> begun = std::nullopt; ///< only of those whose Ranked says that they take states
};

/// What a rank says of the step it has taken, beside its state.
struct Told {
    Index step = 0;
    Index selected = 0; ///< coordinates of the mask it used
    /// Of those, how many the mask before had too; AdamS says 0. Not looked at where a state has just been
    /// restored: a checkpoint need not hold that mask.
    Index kept = 0;
    double gradient_norm = 0.0; ///< of ghat before clipping; 0 where clipping is off
    float clip_factor = 1.0F;
    distributed::Bytes sent{}; ///< to other ranks, by kind
};

/// What a rank shows of itself: vectors in full length.
struct View {
    Index step = 0; ///< steps taken
    std::vector<float> parameters;
    std::vector<float> moment;
    std::vector<float> residual;
    std::vector<std::uint8_t>
        mask; ///< of the last step, as section 9 stores it, with its own bits beyond d
    std::optional<Told> told = std::nullopt; ///< one may say nothing

    /// As all that travels between ranks has them, for gate::Record.
    void fields(auto& visit) { visit(step, parameters, moment, residual, mask, told); }
};

/// One rank of an implementation under test. All ranks call the same functions in the same order.
class Candidate {
  public:
    virtual ~Candidate() = default;
    /// Throws distributed::scape::RefusedStep, distributed::scape::Halted, or what it likes.
    virtual void step(std::span<const float> gradient, double learning_rate) = 0;
    /// Section 20, before step(); asked only of those whose Ranked says that they take parts. A part of the
    /// gradient, whose last one step() is given; its buffer is written over after the call.
    virtual void accumulate(std::span<const float> /*gradient*/) { throw takes_no_parts(); }
    /// The values of these tensors (by number) in the gradient that step() will be given are there, in full
    /// length; the others may hold anything.
    virtual void bucket(std::span<const std::size_t> /*tensors*/, std::span<const float> /*gradient*/) {
        throw takes_no_parts();
    }
    /// Must not wait for the coming mask: the gate looks between steps, and a look must change nothing. It
    /// may be asked before the first step: then parameters are the initial ones, moment and residual +0 in
    /// full length, and the mask, of which there is none yet, may hold anything: it is not compared. The
    /// same goes for the mask of a step that was refused, and for the first look after restore().
    [[nodiscard]] virtual View view() = 0;
    /// The mask of the next step; waits for it.
    [[nodiscard]] virtual std::vector<std::uint8_t> coming() = 0;
    /// Section 7, with all ranks: into an empty folder, and from one that as many or other ranks have
    /// written; into a new object, or over a live one with its coming mask in flight. A checkpoint that
    /// cannot be restored ends in an exception on all ranks, with the object as it was.
    virtual void save(const std::filesystem::path& folder) = 0;
    virtual void restore(const std::filesystem::path& folder) = 0;

    /// Before anything else: goes on from a state that it is given. Asked only of those whose Ranked says
    /// that they take states.
    virtual void begin_at(const Begun& /*state*/) {
        throw std::logic_error("the candidate takes no states; leave Ranked::takes_states false");
    }

  private:
    [[nodiscard]] static std::logic_error takes_no_parts() {
        return std::logic_error("the candidate takes no parts; leave Ranked::takes_parts false");
    }
};

using MakeCandidate =
    std::function<std::unique_ptr<Candidate>(const Setup& setup, distributed::Communicator& communicator)>;

/// One rank fails in an action, and no rank takes another.
struct Fault {
    int rank = 0;
    bool leaves = false;         ///< without a word, before the action; else its link is lost
    std::uint64_t exchanges = 0; ///< so many it can still start
};

/// Section 20: buckets that are none. Such a step has to end with an error on all ranks, and is told as
/// one that was refused.
struct Miscut {
    int rank = -1; ///< who gives them; -1: all do
    std::vector<std::vector<std::size_t>> buckets;
};

/// What happens to all ranks at once.
struct Action {
    enum class Kind : std::uint8_t {
        step,
        restart,
        disturb,
        undo,
        damage, ///< like undo, but a file of the checkpoint is damaged before it is to be restored
    };
    Kind kind = Kind::step;
    Gradients gradients; ///< step; undo, damage: of a step after which the state before it is restored
    /// Section 20: what the gradients are the sums of. Where somebody has changed a value of theirs since,
    /// that value comes in one part.
    std::vector<Gradients> parts;
    std::vector<std::vector<std::size_t>> buckets; ///< of tensors; none: at once
    std::optional<Miscut> miscut;                  ///< step
    double learning_rate = 0.0;
    std::optional<problem::Problem> problem; ///< restart: with the new number of workers
    std::vector<problem::Range> ranges;
    distributed::Disturbance disturbance; ///< disturb: from here to the next restart
    std::optional<Fault> fault;           ///< step, and only of ranks that are threads of one process
    Damage damage{};                      ///< damage
};

/// One rank that is started with something else than the others.
struct Odd {
    int rank = 0;
    Setup setup;
};

/// A run as an implementation is put through it.
struct Scenario {
    Setup setup;
    std::vector<Action> actions;
    std::optional<Odd> odd = std::nullopt; ///< only of ranks that compare what each was given
};

/// How one rank came out of an action.
struct Outcome {
    enum class Kind : std::uint8_t { taken, refused, halted };
    Kind kind = Kind::taken;
    std::string text; ///< of the refusal
    int rank = 0;     ///< whom it names
    Index index = 0;
    float value = 0.0F;
    /// damage: what was done to which file, and `kind` says what the ranks took it for: whole (taken), or
    /// damaged (refused). Empty if there was no file, and nothing was to be restored.
    std::string damaged;
    distributed::Bytes sent{}; ///< in this action, counted outside the implementation
    distributed::CountingCommunicator::Counts exchanges{};

    void fields(auto& visit) { visit(kind, text, rank, index, value, damaged, sent, exchanges); }
};

struct Snapshot {
    std::vector<View> views;
    std::vector<Outcome> outcomes;
};

/// All that could be seen of a run, from all ranks.
struct History {
    std::vector<Snapshot> after;                   ///< each action
    std::vector<std::vector<std::uint8_t>> coming; ///< at the end, one per rank
    std::string
        error; ///< empty, or why the run ended before its end: a crash of a rank, a hang, another error
    bool fault_came = false;        ///< that of an action
    std::vector<std::string> ended; ///< by rank: the error that ended it; empty of one that came to its end
};

/// What there is to see of an implementation beside its parameters. What it does not show is empty in a
/// history, and not compared.
struct Shows {
    bool moment = true;
    bool residual = true;
    bool mask = true;
    bool next_mask = true; ///< History::coming

    [[nodiscard]] bool all() const { return moment && residual && mask && next_mask; }
};

/// What whoever says nothing of it is asked at most.
constexpr Index usual_parameters = 200'000;

using gate::Live;
using gate::sum_of;

/// Whatever can be put through a scenario.
class Implementation : public gate::Implementation {
  public:
    [[nodiscard]] virtual Shows shows() const { return {}; }
    [[nodiscard]] virtual problem::Algorithm algorithm() const { return problem::Algorithm::scape; }
    /// Of the cases that are tried in every run: larger ones would take it too long.
    [[nodiscard]] virtual Index most_parameters() const { return usual_parameters; }
    /// Whether gradients come in parts and buckets, such as are none among them (Action::miscut).
    [[nodiscard]] virtual bool takes_parts() const { return false; }
    /// Whether it can be given scenarios with an odd rank, or with what is not finite.
    [[nodiscard]] virtual bool compares_starts() const { return false; }
    [[nodiscard]] virtual History run(const Scenario& scenario) const = 0;
    /// From the setup's parameters until `live` ends it. Throws what a rank throws, and std::runtime_error
    /// where a step is refused or halts.
    virtual void train(const Setup& setup, Live& live) const;
};

} // namespace truestep::properties::scape
