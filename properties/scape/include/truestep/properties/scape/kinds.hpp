// The kinds of SCAPE's cases; docs/drawn.md lists how often each is drawn.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <truestep/properties/scape/case.hpp>

namespace truestep::properties::scape {

[[nodiscard]] bool leaves_something_out(const Case& run);
[[nodiscard]] bool density_rises(const Case& run);
[[nodiscard]] bool density_falls(const Case& run);
[[nodiscard]] bool groups_differ(const Case& run);
[[nodiscard]] bool buckets_change(const Case& run);
[[nodiscard]] bool has_a_tensor_larger_than_a_bucket(const Case& run);

/// Whether is(n, rho*n, k) holds for any segment that is not always dense, at any step.
[[nodiscard]] bool any_segment(const Case& run, bool (*is)(Index n, double share, Index k));

[[nodiscard]] Index restarts(const Case& run);
/// How often a script saves, and how often at a step that has been saved before.
struct Checkpoints {
    int all = 0;
    int again = 0;
};
[[nodiscard]] Checkpoints checkpoints(const Case& run);

inline constexpr gate::ListedKind<Case> Case::kinds[] = {
    {"several ranks", 60, [](const Case& run) { return run.workers > 1; }},
    {"no power of two", 20,
     [](const Case& run) { return !std::has_single_bit(static_cast<unsigned>(run.workers)); }},
    {"density below 1", 50, [](const Case& run) { return run.density < 1.0; }},
    {"something off the mask", 40, leaves_something_out},
    {"several steps", 50, [](const Case& run) { return run.steps > 1; }},
    {"the density rises", 15, density_rises},
    {"a payload of bf16", 8,
     [](const Case& run) { return problem::format_of(run.payload) == problem::Payload::bf16; }},
    {"a payload of e5m2", 8,
     [](const Case& run) { return problem::format_of(run.payload) == problem::Payload::e5m2; }},
    {"a mean that is rounded", 8,
     [](const Case& run) { return problem::rounds_mean(run.payload) && run.workers > 1; }},
    {"several groups", 15, [](const Case& run) { return problem::has_levels(groups_of(run)); }},
    {"groups of different sizes", 10, groups_differ},
    {"several parts", 30, [](const Case& run) { return run.parts > 1; }},
    {"uneven parts", 10, [](const Case& run) { return run.parts > 1 && run.uneven; }},
    {"several buckets", 8, [](const Case& run) { return cut_of(run, 1).size() > 1 && run.workers > 1; }},
    {"buckets change", 5, [](const Case& run) { return run.workers > 1 && buckets_change(run); }},
    {"more than 8 ranks", 5, [](const Case& run) { return run.workers > 8; }},
    {"fewer parameters than ranks", 5, [](const Case& run) { return run.size() < run.workers; }},
    {"the learning rate changes", 40,
     [](const Case& run) { return run.steps > 1 && run.rate != RateRule::constant; }},
    {"a rate that begins at 0", 8,
     [](const Case& run) { return run.steps > 1 && run.rate == RateRule::warm_up; }},
    {"a rate that ends at 0", 8,
     [](const Case& run) { return run.steps > 1 && run.rate == RateRule::to_zero; }},
    {"a step at rate 0 between others", 5,
     [](const Case& run) { return run.steps > 3 && run.rate == RateRule::wild; }},
    {"decay while the rate changes", 15,
     [](const Case& run) {
         return run.steps > 1 && run.rate != RateRule::constant && run.weight_decay > 0.0;
     }},
    {"the density falls", 20, density_falls},
    {"the density jumps and repeats", 8,
     [](const Case& run) { return run.steps > 2 && run.schedule == DensityRule::jumps; }},
    {"k is 1 of several", 20,
     [](const Case& run) {
         return any_segment(run, [](Index n, double, Index k) { return k == 1 && n > 1; });
     }},
    {"k is all but one", 8,
     [](const Case& run) {
         return any_segment(run, [](Index n, double, Index k) { return k == n - 1 && n > 1; });
     }},
    {"rho*n ends in one half", 5,
     [](const Case& run) {
         return any_segment(run,
                            [](Index, double share, Index) { return share - std::floor(share) == 0.5; });
     }},
    {"beta1 is 0", 10, [](const Case& run) { return run.beta1 == 0.0; }},
    {"beta2 is 0", 8, [](const Case& run) { return run.beta2 == 0.0; }},
    {"a beta near 1", 25, [](const Case& run) { return std::max(run.beta1, run.beta2) >= 0.999; }},
    {"a subnormal epsilon", 5,
     [](const Case& run) { return static_cast<float>(run.epsilon) < std::numeric_limits<float>::min(); }},
    {"a huge epsilon", 8, [](const Case& run) { return run.epsilon > 1e6; }},
    {"clipped to far below the norm", 8,
     [](const Case& run) { return run.clip_norm > 0.0 && run.clip_norm < 0.1; }},
    {"clipping, and the norm is below", 8, [](const Case& run) { return run.clip_norm > 1e5; }},
    {"equal scores", 5, [](const Case& run) { return run.data == problem::DataClass::ties; }},
    {"gradients of +0 and -0", 5, [](const Case& run) { return run.data == problem::DataClass::zeros; }},
    {"subnormal gradients", 5, [](const Case& run) { return run.data == problem::DataClass::subnormal; }},
    {"gradients at the limit of 2^56", 5,
     [](const Case& run) { return run.data == problem::DataClass::limit; }},
    {"a tensor larger than a bucket", 15, has_a_tensor_larger_than_a_bucket},
    // `reference` demands all kinds above; those below show in scripts alone.
    {"several restarts", 20, [](const Case& run) { return restarts(run) > 1; }},
    {"a restart while the density changes", 15,
     [](const Case& run) {
         return restarts(run) > 0 &&
                (run.schedule == DensityRule::jumps || (run.warm_up > 0 && run.start != run.density));
     }},
    {"several checkpoints", 30, [](const Case& run) { return checkpoints(run).all > 1; }},
    {"two checkpoints of one step", 15, [](const Case& run) { return checkpoints(run).again > 0; }},
    // Runs and single properties show the others.
    {"an always-dense tensor", 20},
    {"the mask changes", 30},
    {"late coordinates", 20},
    {"clipped", 30},
    {"a rounding", 40},
    {"more than E5M2 holds", 30},
    {"a mean that rounding changes", 40},
    {"a step of zeros", 40},
    {"a step of zeros but on one rank", 15},
    {"a norm of five blocks and more", 90},
    {"version 1 of the norm", 10},
    {"the order of the norm's blocks shows", 20},
    {"nearly too large a payload", 25},
    {"too large a payload", 20},
    {"too large in a later step", 5},
    {"too large, and a gradient that is refused", 8},
    {"not in the first step", 20},
    {"the order of the parts shows", 1},
    {"residuals that are not zero", 40},
    {"not the last part", 25},
    {"the sum is too large, and no part", 5},
    {"buckets that are none", 15},
    {"a rank gives other buckets", 20},
    {"settings that differ", 10},
    {"parameters that differ in a bit", 8},
    {"parameters that are not finite", 15},
    {"states that differ", 30},
    {"a rank without the state", 10},
    {"fewer", 20},
    {"more", 20},
    {"all kernels of the machine", 100},
    {"a file's first byte", 10},
    {"a file's last byte", 10},
    {"a byte within a file", 10},
    {"a byte is gone or too many", 15},
    {"another order", 40},
    {"stopped on the way"},
    {"a link was cut", 40},
    {"a rank left", 10},
    {"a mask was damaged"},
    {"a refusal", 25},
    {"two refusals at once", 10},
    {"a delay", 25},
    {"a restart with other ranks", 30},
    {"a step undone", 20},
    {"two steps and more", 30},
};

} // namespace truestep::properties::scape
