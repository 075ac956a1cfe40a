#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <truestep/gate/kind.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/problem/density.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/properties/scape/damage.hpp>

// The cases of SCAPE: a few small numbers, from which parameters and gradients follow. So shrinking changes
// only what a reader would change by hand, any rank can make any slice, and a case is one line of text.

namespace truestep::properties::scape {

using problem::Index;
using Gradients = std::vector<std::vector<float>>; ///< one per rank
/// The value of a part that a rank does not give. It changes nothing to which it is added.
inline constexpr float missing_part = -0.0F;

/// One event of a run.
struct Operation {
    enum class Kind : std::uint8_t {
        step,
        inject,  ///< a step in which one rank's gradient holds a value that must be refused
        restart, ///< a checkpoint, from which another group of ranks continues
        delay,   ///< from here on messages come late and in another order
        undo,    ///< a step after which a checkpoint from before it is restored in the same object
    };
    Kind kind = Kind::step;
    int workers = 1; ///< restart: the new number
    int rank = 0;    ///< inject: whose gradient (modulo the number of workers)
    /// inject: which of the values; from 8 on there is another in the next rank's gradient, too. delay:
    /// which of the disturbances.
    std::uint8_t what = 0;

    friend bool operator==(const Operation&, const Operation&) = default;
};

constexpr int nobody = -1;

/// The learning rate over the steps. All but the last are powers of two, so that lr*u is exact.
enum class RateRule : std::uint8_t {
    constant,
    warm_up, ///< from 0
    to_zero, ///< halved at every step, and 0 at the last of the case
    wild,    ///< another one at every step, some of them 0
};

/// The density over the steps.
enum class DensityRule : std::uint8_t {
    geometric, ///< from `start` to `density` within `warm_up` steps
    linear,    ///< likewise
    jumps,     ///< up and down, with some equal steps
};

/// The buckets over the steps (section 20).
enum class CutRule : std::uint8_t {
    backward, ///< from the last tensor to the first, always alike
    rebuilt,  ///< likewise in the first step; larger and in another order after it
    wild,     ///< in another order at every step
};

/// Buckets of tensors, by number, in the order in which they are given.
using Cut = std::vector<std::vector<std::size_t>>;

/// A problem and its run.
struct Case {
    static const gate::ListedKind<Case> kinds[];

    std::vector<problem::Tensor> tensors{{"a", 1, false}};
    int workers = 1;
    /// The sizes of the groups of ranks (section 32), from the first rank on, repeated as long as there are
    /// ranks; the last group may be smaller. Empty: there are none.
    problem::Groups groups;
    problem::PartitionRule partition = problem::PartitionRule::by_shard;
    bool owners_in_turn = false; ///< segment i belongs to rank i mod P, as in one version of the artifact
    double density = 1.0;        ///< at the end of the schedule
    DensityRule schedule = DensityRule::geometric;
    double start = 1.0; ///< the density at its beginning
    Index warm_up = 0;  ///< the steps of the schedule; 0: constant, except for jumps
    RateRule rate = RateRule::constant;
    double beta1 = 0.5;
    double beta2 = 0.75;
    double epsilon = 1e-8;
    problem::BiasCorrection bias_correction = problem::BiasCorrection::none;
    double weight_decay = 0.0;
    double clip_norm = 0.0;
    problem::NormVersion norm = problem::NormVersion::tree; ///< has no effect without clipping
    problem::Payload payload = problem::Payload::fp32;
    problem::DataClass data = problem::DataClass::dyadic;
    int silent = nobody; ///< the rank whose gradients are all 0
    std::uint64_t seed = 0;
    int parts = 1;                    ///< micro-batches of a step
    Index bucket_bytes = 0;           ///< of its values, unless it is one tensor; 0: no buckets
    CutRule cuts = CutRule::backward; ///< of the buckets
    Index steps = 1;
    std::vector<Operation> script; ///< for the state machine, which takes no other steps

    // For single properties: damage to a checkpoint, a rank, a coordinate, another number of workers.
    Damage damage{};
    int chosen_rank = 0;
    Index chosen_place = 0;
    int other_workers = 1;
    bool uneven = false; ///< some ranks give fewer parts

    [[nodiscard]] Index size() const;

    friend bool operator==(const Case&, const Case&) = default;
};

/// One line without spaces, such as "tensors=a:3+b:1:dense,workers=2,density=0.1,seed=4,steps=2". Values as
/// in Case{} are left out.
[[nodiscard]] std::string text(const Case& run);
/// Parses such a line. Throws truestep::Error.
[[nodiscard]] Case parse_case(const std::string& text);

[[nodiscard]] problem::Problem problem_of(const Case& run);
[[nodiscard]] problem::Groups groups_of(const Case& run);
[[nodiscard]] problem::DensitySchedule schedule_of(const Case& run);
/// The density at step t if it jumps: it falls, stays, rises, falls to something between, and rises to 1.
[[nodiscard]] double jumping_density(const Case& run, Index t);
[[nodiscard]] std::vector<float> parameters_of(const Case& run);
/// The gradients of step t. On dyadic data they are whole multiples of the number of workers, so that means
/// are exact. With parts they are the parts' sums, in order.
[[nodiscard]] Gradients gradients_of(const Case& run, Index step);
/// The gradients of each part, if there are several.
[[nodiscard]] std::vector<Gradients> parts_of(const Case& run, Index step);
/// Whether a rank does not give this part.
[[nodiscard]] bool is_missing(const std::vector<float>& part);
/// The buckets of step t; none if the gradient comes at once.
[[nodiscard]] Cut cut_of(const Case& run, Index step);

/// The learning rate of step t.
[[nodiscard]] double learning_rate_of(const Case& run, Index step);

} // namespace truestep::properties::scape
