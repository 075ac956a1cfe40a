#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <truestep/distributed/mapl/ends.hpp>
#include <truestep/problem/mapl/quantization.hpp>
#include <truestep/reference/mapl/matrix.hpp>

#include "case.hpp"

namespace truestep::properties::mapl {

using namespace distributed::mapl;
using namespace reference::mapl;

/// What one stage of the pipeline computes between the boundaries at its sides.
class Stage {
  public:
    virtual ~Stage() = default;
    /// What it sends on, of what has arrived (the first stage: nothing).
    virtual Floats forward(Index step, Index micro, const Floats& arrived) = 0;
    /// The gradient of what had arrived, of that of what it sent on (the last stage: nothing).
    virtual Floats backward(Index step, Index micro, const Floats& gradient) = 0;
    /// Of its own parameters, all together, once a step has ended.
    virtual Floats parameter_gradient(Index /*step*/) { return {}; }
    /// And these, as many; where a case has a trainer there is one at least.
    virtual Floats parameters() { return {}; }
    virtual void set_parameters(std::span<const float> /*trained*/) {}
};

/// Bad input, tried before the good one.
enum class Flaw : std::uint8_t {
    none,
    id_beyond,             ///< the sender's, in its first micro-batch
    activation_not_finite, ///< the same
    gradient_not_finite,   ///< the receiver's
};

/// All that is given to the two sides of each boundary and to the stages between them. Properties change
/// parts of it.
///
/// Of several replicas rank r has stage r mod S of replica r / S. Micro-batch m of replica p is number
/// p * micro + m of the step, for ids and for stages.
struct Scenario {
    Case run;
    std::function<Settings(Index boundary, Side)> settings;
    std::function<EndState(Index boundary, Side)> state;
    std::function<std::vector<Id>(Index step, Index micro)> ids; ///< and so the number of tokens
    std::function<std::unique_ptr<Stage>(int stage)> stage;
    double rate = 0.0;
    std::function<double(Index step)> falling_rate{}; ///< in its place, where it is not always the same
    double anchor_rate = 0.0;
    double learning_rate = 0.0; ///< of a trainer
    Flaw flaw = Flaw::none;
    /// A step of activations and gradients so large that the sums of their products are not finite, though
    /// they are. No anchor follows what comes of them.
    Index overflows = -1;
    bool ends_at_start = false; ///< once both sides of all boundaries are there
    Index awaits_more = 0;      ///< tokens of each micro-batch than come; less, if negative
    bool uneven_steps = false;  ///< each second step has one micro-batch more
    bool held_back = false;     ///< messages go as late and come in as small parts as they may
    /// A stage that dies before it takes that micro-batch forward; of no rank: none.
    struct {
        int rank = -1;
        Index step = 0;
        Index micro = 0;
    } dies{};

    [[nodiscard]] int workers() const { return static_cast<int>(run.workers); }
    [[nodiscard]] int stage_of(int rank) const { return rank % workers(); }
    [[nodiscard]] int replica_of(int rank) const { return rank / workers(); }
    /// The ranks that have a stage, replica after replica.
    [[nodiscard]] std::vector<int> ranks_of(int of_stage) const;
    [[nodiscard]] Index boundaries() const { return run.workers - 1; }
    [[nodiscard]] double rate_of(Index step) const { return falling_rate ? falling_rate(step) : rate; }
    [[nodiscard]] Index micro_batches(Index step) const {
        return run.micro + (uneven_steps ? step % 2 : 0);
    }
    /// Whether a run may end before its time, with a line that says why.
    [[nodiscard]] bool may_end() const { return dies.rank >= 0 || awaits_more != 0; }
};

[[nodiscard]] Scenario scenario_of(const Case& run);

/// Activations or gradients, N x D, by what they are for. Dyadic: multiples of 1/4 from -2 to 2.
[[nodiscard]] Floats made_up(const Case& run, std::uint64_t what, Index step, Index micro, Index count);

/// D x r with orthonormal columns and so few bits that sums over them are exact: parts of a Hadamard
/// matrix, halved, in places of their own; with a full rank too.
[[nodiscard]] Floats dyadic_subspace(Index width, Index rank, std::uint64_t seed);

/// Multiples of 1/2 from -2 to 2: some lie as near as others, and some are the same.
[[nodiscard]] Floats dyadic_codebooks(const Settings& settings, std::uint64_t seed);

/// What a stage sends on is made up, and so is the gradient of what had arrived.
[[nodiscard]] std::unique_ptr<Stage> made_up_stage(const Case& run, int stage);

/// One thing that a stage does, in the order of a schedule.
struct Turn {
    bool forward;
    Index micro;
};
[[nodiscard]] std::vector<Turn> turns(Schedule schedule, int stage, int stages, Index micro_batches);

} // namespace truestep::properties::mapl
