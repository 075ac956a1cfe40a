#pragma once

#include <string>
#include <vector>

namespace scape::planted {

/// The mistakes of section 10, numbered as there.
enum class Bug : int {
    none = 0,
    payload_from_own_shard = 1,
    mean_taken_twice = 2,
    sum_in_place_of_mean = 3,
    one_rank_for_all = 4,
    residual_never_added = 5,
    residual_kept_where_sent = 6,
    residual_cleared_everywhere = 7,
    unselected_momentum_dropped = 8,
    residual_decayed = 9,
    mask_without_delay = 10,
    mask_two_steps_late = 11,
    score_from_gradient = 12,
    score_without_residual = 13,
    score_without_magnitude = 14,
    score_after_reset = 15,
    score_from_average = 16,
    ties_to_higher_index = 17,
    k_rounded_up = 18,
    k_over_whole_model = 19,
    at_least_one_forgotten = 20,
    always_dense_ignored = 21,
    moment_kept_off_mask = 22,
    new_moment_in_denominator = 23,
    division_by_a1_missing = 24,
    residual_taken_for_gradient = 25,
    correction_one_step_off = 26,
    second_correction_missing = 27,
    epsilon_inside_root = 28,
    decay_only_on_mask = 29,
    decay_after_update = 30,
    decay_twice_on_mask = 31,
    one_rank_does_not_decay = 32,
    fused_multiply_add = 33,
    reverse_rank_order = 34,
    double_accumulation = 35,
    reciprocal_for_division = 36,
    last_range_cut_off = 37,
    garbage_beyond_end = 38,
    offsets_of_previous_mask = 39,
    own_mask_kept = 40,
    mask_buffer_reused = 41,
    clip_by_local_norm = 42,
    clip_before_reconstruction = 43,
    clipped_gradient_unclipped_moment = 44,
    density_one_step_off = 45,
    checkpoint_without_residual = 46,
    residual_lost_when_shrinking = 47,
    residual_copied_when_growing = 48,
    nan_passed_on = 49,
    nan_refused_on_one_rank = 50,
    refused_step_changes_residual = 51,
    subnormals_flushed = 52,
    sign_of_zero_lost = 53,
    residual_counted_twice = 54,
};

constexpr int bugs_of_section_10 = 54;

struct Description {
    int number = 0;
    std::string name;  ///< in the words of section 10, where it has any
    std::string shows; ///< what a user would see, and when it can be seen at all
};

/// All of them, in the order of their numbers: those of section 10, then those that only code for devices
/// has, in the host's form and on a device.
[[nodiscard]] const std::vector<Description>& bugs();

} // namespace scape::planted
