// The run that a case of MAPL means.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <truestep/distributed/counting_peers.hpp>
#include <truestep/distributed/mapl/ends.hpp>
#include <truestep/problem/mapl/quantization.hpp>
#include <truestep/reference/mapl/matrix.hpp>

#include "case.hpp"
#include "recording_peers.hpp"

namespace truestep::properties::mapl {

using namespace distributed::mapl;
using namespace reference::mapl;

/// The computation of one stage between the boundaries at its sides.
class Stage {
  public:
    virtual ~Stage() = default;
    /// Returns what it sends on, computed from what has arrived (empty for the first stage).
    virtual Floats forward(Index step, Index micro, const Floats& arrived) = 0;
    /// The gradient of what had arrived, computed from that of what it sent on (empty for the last stage).
    virtual Floats backward(Index step, Index micro, const Floats& gradient) = 0;
    /// The gradient of its own parameters, all together, once a step has ended.
    virtual Floats parameter_gradient(Index /*step*/) { return {}; }
    /// The parameters, as many as the gradient has entries. A case with a trainer has at least one.
    virtual Floats parameters() { return {}; }
    virtual void set_parameters(std::span<const float> /*trained*/) {}
};

/// Bad input, tried before the good one.
enum class Flaw : std::uint8_t {
    none,
    id_beyond,             ///< the sender's, in its first micro-batch
    activation_not_finite, ///< likewise
    gradient_not_finite,   ///< the receiver's
    activation_too_large,  ///< finite, but what of it travels in bf16 is not
    gradient_too_large,    ///< likewise
    state_within_a_step,   ///< asked for while a micro-batch is expected or under way, or has come back
    anchor_within_a_step,  ///< set when all micro-batches have come back
    unlike_expected,       ///< a first micro-batch with more tokens than its receiver expects
    rate_impossible,       ///< of the sender's first step
    rate_of_one_replica,   ///< likewise: the last one's differs from the others' in a bit, or cannot be
    codeword_too_large,    ///< two tokens that meet a codeword; their sum is not finite
    last_not_finite,       ///< one micro-batch more than the sender's first step has
    file_of_other_settings ///< loaded at the restart
};

/// Everything that is given to the two sides of each boundary and to the stages between them. Properties
/// change parts of it.
struct Scenario {
    Case run;
    std::function<Settings(Index boundary, Side)> settings;
    std::function<EndState(Index boundary, Side)> state;
    std::function<std::vector<Id>(Index step, Index micro)> ids; ///< their number is the number of tokens
    std::function<std::unique_ptr<Stage>(int stage)> stage;
    double rate = 0.0;
    std::function<double(Index step)> falling_rate{}; ///< replaces `rate` if it is not constant
    double anchor_rate = 0.0;
    double learning_rate = 0.0; ///< of a trainer
    Flaw flaw = Flaw::none;
    /// The step in which the last replica's activations and gradients are finite, but so large that sums of
    /// their products are not. Without a trainer, anchors do not follow its results.
    Index overflows = -1;
    /// What is given to one replica's sides in place of the others'.
    std::function<void(int replica, Side side, EndState& state)> other_start{};
    bool ends_at_start = false; ///< once both sides of all boundaries exist
    Index awaits_more = 0;      ///< how many more tokens a receiver expects than come; fewer, if negative
    bool uneven_steps = false;  ///< each second step has one micro-batch more
    bool held_back = false;     ///< messages are as late, and in as small parts, as is allowed
    /// The stage that fails when it takes this micro-batch forward; rank -1: none.
    struct {
        int rank = -1;
        Index step = 0;
        Index micro = 0;
        RecordingPeers::Damage damage{}; ///< to its message; none: it dies

        [[nodiscard]] bool is_at(int of_rank, Index in_step, Index of_micro) const {
            return rank == of_rank && step == in_step && micro == of_micro;
        }
    } fails{};

    [[nodiscard]] int workers() const { return static_cast<int>(run.workers); }
    [[nodiscard]] int stage_of(int rank) const { return rank % workers(); }
    [[nodiscard]] int replica_of(int rank) const { return rank / workers(); }
    /// The ranks with this stage, replica after replica.
    [[nodiscard]] std::vector<int> ranks_of(int of_stage) const;
    [[nodiscard]] Index boundaries() const { return run.workers - 1; }
    /// The ranks that send to the next stage, each to the rank after it.
    [[nodiscard]] std::vector<int> senders() const;
    [[nodiscard]] double rate_of(Index step) const { return falling_rate ? falling_rate(step) : rate; }
    /// The rate that a flaw gives this replica, before the right one.
    [[nodiscard]] std::optional<double> flawed_rate(int replica) const;
    [[nodiscard]] Index micro_batches(Index step) const {
        return run.micro + (uneven_steps ? step % 2 : 0);
    }
    /// Returns what a stage on this rank has made, or 2^100 times that if the step is to overflow there.
    [[nodiscard]] Floats as_large(int rank, Index step, Floats made) const;
    /// Whether a run may end early, with a line that gives the reason.
    [[nodiscard]] bool may_end() const { return fails.rank >= 0 || awaits_more != 0; }
};

[[nodiscard]] Scenario scenario_of(const Case& run);

/// Made-up activations or gradients, N x D; `what` is their purpose. Dyadic ones are multiples of 1/4 from
/// -2 to 2.
[[nodiscard]] Floats synthetic(const Case& run, std::uint64_t what, Index step, Index micro, Index count);

/// A D x r matrix with orthonormal columns and so few bits that sums over them are exact: parts of a
/// Hadamard matrix, halved, in shuffled places. Also for full rank.
[[nodiscard]] Floats dyadic_subspace(Index width, Index rank, std::uint64_t seed);

/// Multiples of 1/2 from -2 to 2, with ties and equal codewords among them.
[[nodiscard]] Floats dyadic_codebooks(const Settings& settings, std::uint64_t seed);

/// A stage whose output and gradients are made up.
[[nodiscard]] std::unique_ptr<Stage> made_up_stage(const Case& run, int stage);
/// A stage that sends given activations in its first step.
[[nodiscard]] std::unique_ptr<Stage> sends_first(std::unique_ptr<Stage> stage,
                                                 std::function<Floats(Index micro)> given);

/// How messages are disturbed where they are held back.
[[nodiscard]] distributed::PeerDisturbance held_back(const Scenario& scenario);

/// A number that is not finite: of some NaNs, rounding to 16 bits would make a number.
[[nodiscard]] float not_finite(const Case& run);

/// Puts a token in the first place, whose share of A's first column is the least number that bf16 rounds to
/// none, and of which two add up to none.
[[nodiscard]] Floats too_large(const Case& run, Floats values, const Floats& subspace);

/// Gives each boundary a codeword that two such tokens meet exactly, if A is dyadic, and no other one
/// chooses.
void add_large_codeword(Scenario& scenario);

/// Gives one setting that a checkpoint holds another value, and returns its name.
std::string change_a_setting(const Case& run, Settings& settings);

/// One action of a stage, in the order of a schedule.
struct Turn {
    bool forward;
    Index micro;
};
[[nodiscard]] std::vector<Turn> turns(Schedule schedule, int stage, int stages, Index micro_batches);

} // namespace truestep::properties::mapl
