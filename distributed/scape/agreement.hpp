#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <truestep/distributed/scape/scape.hpp>

namespace truestep::distributed::scape {

/// Throws truestep::Error unless all tensors are in one parameter group: a step has one learning rate and
/// decay.
void check_one_param_group(const problem::Layout& layout);

/// Throws truestep::Error on all ranks unless all got the same problem and the same, finite
/// parameters: parameters never travel, so a difference would stay.
void agree_on_problem(Communicator& communicator, const problem::Problem& problem,
                      const std::vector<problem::Range>& ranges, const problem::DensitySchedule& density,
                      const Scape::Options& options, std::span<const float> parameters);

/// Throws truestep::Error for the first value that is a NaN or an infinity. `what` begins the message.
void check_finite(const problem::Layout& layout, const std::string& what, std::span<const float> values);

/// The checks of a step that need no other rank: throws Halted if `halted` holds a reason, and
/// truestep::Error for a gradient of another size or a learning rate that is not finite.
void check_step(const problem::Layout& layout, const std::string& halted, std::size_t gradient_size,
                double learning_rate);

/// Writes into `halted` that this step was interrupted; the next one reuses its memory.
void say_interrupted(std::string& halted, Index step);

/// What a rank is about to do: take the step with a gradient that it refuses at `refused` (d:
/// nowhere; from d + 1 on: a payload, which comes after all gradients), or, below 0, something
/// else. So ranks that do different things still exchange the same. `said` is the bits of the
/// refused value, or else a digest of the restored state and the learning rate, except for the lowest
/// bits, which are this rank's claim for the next scale.
struct Intent {
    Index refused;
    std::uint64_t said;
};

/// The intents of all ranks, and their sizes. A step reuses the memory of the one before.
struct AgreementRoom {
    std::vector<Intent> all;
    std::vector<std::size_t> sizes;
};

/// What a rank is about to do, with all that the others must know.
struct Attempt {
    Index step = 0;
    std::size_t bucket = 0;     ///< its number in the step, from 1 on; 0: the step itself
    std::string fault{};        ///< why it cannot be done here, or ""
    RestoredDigests restored{}; ///< of the state restored since the last step
    int claim = 0;              ///< for E of section 21; 0 where nothing is scaled
    double learning_rate = 0.0; ///< 0 for a bucket, which comes before the rate
};

// A rank's claim for the next E, of which the greatest counts: its own greatest exponent as fp32
// holds it, plus had_some; or the old E, if all its values were below 2^-126.
constexpr int had_some = 256;
constexpr int exponent_bias = 127;                   ///< of fp32
constexpr int claim_bias = had_some + exponent_bias; ///< of RankState::exponent, which is the same

/// The result of the agreement on all ranks.
struct AgreementResult {
    std::uint64_t bytes_sent; ///< by this rank
    int exponent;             ///< E by the greatest claim, as fp32 holds it
};

/// The digests of the parts of a state that must be the same on all ranks.
[[nodiscard]] RestoredDigests digests_of_state(const RankState& state);

/// Section 4.1: throws RefusedStep on all ranks if one has refused its gradient at `refused` < d,
/// where it has `value`. Throws truestep::Error if one gives a bucket while another takes the step,
/// has restored another state or has another learning rate, or finds a fault.
AgreementResult agree_on_gradient(Communicator& communicator, AgreementRoom& room,
                                  const problem::Problem& problem, Index refused, float value,
                                  const Attempt& attempt);

/// Throws truestep::Error on all ranks unless all give a bucket of these tensors, which ascend, and
/// have restored the same state.
AgreementResult agree_on_bucket(Communicator& communicator, AgreementRoom& room,
                                std::span<const std::size_t> tensors, const Attempt& attempt);

/// For the first step, where the exponents are unknown until the mask exists.
AgreementResult agree_on_exponent(Communicator& communicator, AgreementRoom& room, int claim);

} // namespace truestep::distributed::scape
