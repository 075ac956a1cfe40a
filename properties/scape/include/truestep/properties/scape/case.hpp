#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <truestep/problem/data.hpp>
#include <truestep/problem/density.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/properties/scape/damage.hpp>

// What RapidCheck draws: a few small numbers. Parameters and gradients follow from them, so that shrinking
// moves only what a reader would change by hand, any rank can make any slice, and a case is one line of
// text.

namespace truestep::properties::scape {

using problem::Index;
using Gradients = std::vector<std::vector<float>>; ///< one per rank

/// One thing that happens in a run.
struct Operation {
    enum class Kind : std::uint8_t {
        step,
        inject,  ///< a step in which one rank's gradient holds a value that has to be refused
        restart, ///< a checkpoint, and another group of ranks that goes on from it
        delay,   ///< from here on messages come late and in another order
        undo, ///< a step whose state is replaced by the one before, from a checkpoint, in the same object
    };
    Kind kind = Kind::step;
    int workers = 1; ///< restart: the new number
    int rank = 0;    ///< inject: whose gradient (modulo the number of workers)
    /// inject: which of the values, and from 8 on another in the next rank's gradient, too; delay: which of
    /// the disturbances.
    std::uint8_t what = 0;

    friend bool operator==(const Operation&, const Operation&) = default;
};

constexpr int nobody = -1;

/// How the learning rate goes over the steps. All but the last are powers of two, so that lr*u is exact.
enum class RateRule : std::uint8_t {
    constant,
    warm_up, ///< from 0
    to_zero, ///< halved at every step, and 0 at the last of the case
    wild,    ///< another one at every step, 0 among them
};

/// How the density goes over the steps.
enum class DensityRule : std::uint8_t {
    geometric, ///< from `start` to `density` within `warm_up` steps
    linear,    ///< likewise
    jumps,     ///< up and down, with some steps alike
};

/// How buckets go over the steps (section 20).
enum class CutRule : std::uint8_t {
    backward, ///< from the last tensor to the first, always alike
    rebuilt,  ///< likewise in the first step; larger and in another order after it
    wild,     ///< in another order at every step
};

/// Tensors by number, in buckets in the order in which they are given.
using Cut = std::vector<std::vector<std::size_t>>;

/// A problem and the run of it.
struct Case {
    std::vector<problem::Tensor> tensors{{"a", 1, false}};
    int workers = 1;
    /// How many ranks the groups have (section 32), from the first on and over again as long as there are
    /// ranks; the last one may have fewer. Empty: there are none.
    problem::Groups groups;
    problem::PartitionRule partition = problem::PartitionRule::by_shard;
    bool owners_in_turn = false; ///< segment i belongs to rank i mod P, as in one version of the artifact
    double density = 1.0;        ///< where the schedule ends
    DensityRule schedule = DensityRule::geometric;
    double start = 1.0; ///< where it begins
    Index warm_up = 0;  ///< steps on its way; 0: constant, but for jumps
    RateRule rate = RateRule::constant;
    double beta1 = 0.5;
    double beta2 = 0.75;
    double epsilon = 1e-8;
    problem::BiasCorrection bias_correction = problem::BiasCorrection::none;
    double weight_decay = 0.0;
    double clip_norm = 0.0;
    problem::NormVersion norm = problem::NormVersion::tree; ///< of no matter where nothing is clipped
    problem::Payload payload = problem::Payload::fp32;
    problem::DataClass data = problem::DataClass::dyadic;
    int silent = nobody; ///< a rank whose gradients are all 0
    std::uint64_t seed = 0;
    int parts = 1;                    ///< micro-batches of a step
    Index bucket_bytes = 0;           ///< of the values of a bucket, unless it is one tensor; 0: at once
    CutRule cuts = CutRule::backward; ///< of the buckets
    Index steps = 1;
    std::vector<Operation> script; ///< of the state machine, which takes no other steps

    // What some properties need besides: damage to a checkpoint, a rank, a coordinate, another number of
    // workers.
    Damage damage{};
    int chosen_rank = 0;
    Index chosen_place = 0;
    int other_workers = 1;

    [[nodiscard]] Index size() const;

    friend bool operator==(const Case&, const Case&) = default;
};

/// One line without spaces, such as "tensors=a:3+b:1:dense,workers=2,density=0.1,seed=4,steps=2"; what is
/// as in Case{} is left out.
[[nodiscard]] std::string text(const Case& run);
/// And back. Throws truestep::Error.
[[nodiscard]] Case parse_case(const std::string& text);

[[nodiscard]] problem::Problem problem_of(const Case& run);
[[nodiscard]] problem::Groups groups_of(const Case& run);
[[nodiscard]] problem::DensitySchedule schedule_of(const Case& run);
/// Of step t where the density jumps: falls, stays, rises, falls to something between, rises to all.
[[nodiscard]] double jumping_density(const Case& run, Index t);
[[nodiscard]] std::vector<float> parameters_of(const Case& run);
/// Of step t. On dyadic data they are whole multiples of the number of workers, so that means are exact.
/// Of a case with parts they are the parts' sums, in order.
[[nodiscard]] Gradients gradients_of(const Case& run, Index step);
/// Each part's, where there are several.
[[nodiscard]] std::vector<Gradients> parts_of(const Case& run, Index step);
/// The buckets of step t; none where the gradient comes at once.
[[nodiscard]] Cut cut_of(const Case& run, Index step);

/// The learning rate of step t.
[[nodiscard]] double learning_rate_of(const Case& run, Index step);

} // namespace truestep::properties::scape
