#pragma once

#include <string>
#include <vector>

namespace scape::planted {

/// The mistakes of section 10, numbered as there, from 67 on such as have shipped elsewhere, and from 111
/// on such as the second version of the norm and payloads of 16 bits invite.
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
    update_with_wrong_sign = 67,
    weights_swapped = 68,
    clip_result_dropped = 69,
    counter_not_saved = 70,
    loaded_state_overwritten = 71,
    beyond_last_bucket = 72,
    last_bucket_in_all = 73,
    alone_is_zero = 74,
    alone_is_doubled = 75,
    norm_in_single = 76,
    dense_counted_by_all = 77,
    clip_by_owner = 78,
    gradient_not_zeroed = 79,
    mask_only_shrinks = 80,
    payload_reused = 81,
    residual_by_bucket = 82,
    counter_per_tensor = 83,
    another_order_of_names = 84,
    decoder_of_another_density = 85,
    index_in_16_bits = 86,
    step_in_8_bits = 87,
    zeros_to_nan = 88,
    density_of_start = 89,
    decay_only_while_full = 90,
    ranks_start_apart = 91,
    moment_in_bf16 = 92,
    residual_divided = 93,
    rate_of_first_step = 94,
    zero_rate_skips = 95,
    coming_mask_not_saved = 96,
    step_in_16_bits = 97,
    infinity_not_noticed = 98,
    large_tensor_not_reduced = 99,
    last_bucket_for_each = 100,
    residual_by_number_of_bucket = 101,
    only_last_part = 102,
    all_but_last_part = 103,
    parts_averaged = 104,
    refused_parts_stay = 105,
    accumulated_divided = 106,
    parts_last_to_first = 107,
    cut_of_first_step = 108,
    sum_not_checked = 109,
    earlier_buckets_divided = 110,
    norm_one_after_another = 111,
    odd_block_a_level_early = 112,
    odd_block_dropped = 113,
    rounding_dropped = 114,
    payload_truncated = 115,
    rounding_counted_backwards = 116,
    fold_in_bf16 = 117,
    payload_subnormals_flushed = 118,
};

constexpr int bugs_of_section_10 = 54;
constexpr int first_that_shipped = 67; ///< between them those of code for devices

struct Description {
    int number = 0;
    std::string name;  ///< in the words of section 10, where it has any
    std::string shows; ///< what a user would see, and when it can be seen at all
};

/// All of them, in the order of their numbers: those of section 10, then those that only code for devices
/// has, in the host's form and on a device, then those that shipped elsewhere, and those of the second
/// edition.
[[nodiscard]] const std::vector<Description>& bugs();

} // namespace scape::planted
