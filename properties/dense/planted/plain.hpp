// A second, plain implementation of dense training with known bugs in it.
#pragma once

#include <memory>

#include "trial.hpp"

namespace truestep::properties::dense {

/// The numbers of the known bugs, in the order of their list.
enum Bug : int {
    none,
    // The rule.
    plain_sgd,
    no_first_correction,
    no_second_correction,
    epsilon_inside_root,
    decay_added_to_gradient,
    decay_forgotten,
    square_forgotten,
    momentum_starts_at_zero,
    nesterov_forgotten,
    dampening_forgotten,
    // Muon.
    cut_matrix,
    once_a_micro_batch,
    dealt_by_extents,
    all_dealt_to_adamw,
    one_iteration_less,
    not_normalized,
    scale_of_transposed,
    scale_forgotten,
    own_momentum,
    // How gradients come together.
    contribution_lost,
    sum_for_mean,
    divided_by_size,
    divided_by_ranks_only,
    ranks_order_in_tree,
    micro_batches_before_tree,
    gradients_kept,
    // Clipping.
    clipped_by_own_norm,
    clipped_by_tensor,
    clipped_before_mean,
    clip_scales_up,
    // Groups.
    first_groups_rate,
    first_groups_decay,
    // Owners and copies.
    last_coordinate_left_out,
    own_parameters_stale,
    masters_from_copies,
    copies_cut_off,
    copies_travel_whole,
    // Refused steps.
    refused_by_one_rank,
    refused_counts,
    refused_moves_moments,
    // Checkpoints.
    count_lost,
    second_moment_lost,
    masters_lost,
    owners_of_before,
    // Others.
    goes_on_alone,
    does_not_halt,
    settings_not_compared,
    group_without_tensors_allowed,
    thread_share_lost,
    default_decay,
    rates_not_compared,
    refuses_alone,
    accumulation_ignored,
    runs_mixed,
    first_on_devices, ///< the numbers of device code's, 55 to 64
    last_on_devices = first_on_devices + 9,
    steps_not_compared,
    iteration_in_fp32,
    parameters_not_compared,
    checkpoints_settings_ignored,
    number_of_bugs
};

[[nodiscard]] std::unique_ptr<RankUnderTest> begin_plain(Bug bug, const Beginning& beginning,
                                                         distributed::Communicator& ranks);

} // namespace truestep::properties::dense
