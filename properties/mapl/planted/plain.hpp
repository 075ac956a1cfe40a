// Plain ends of a boundary, in which MAPL's known bugs are planted.
#pragma once

#include "end_factory.hpp"

namespace truestep::properties::mapl {

/// The known bugs of the plain ends.
enum Wrong : int {
    nothing,
    sender_part_only,
    receiver_part_only,
    parts_averaged,
    updated_on_one_side,
    shipped_late,
    sym_forgotten,
    projected_with_old,
    not_retracted,
    five_iterations,
    not_transposed_back,
    endless_scaled,
    polar_of_gradient,
    momentum_after_polar,
    senders_anchor,
    rows_not_orthonormal,
    anchor_gradient_sign,
    anchor_gradient_overwritten,
    ids_as_bf16,
    ids_of_another,
    dx_without_a,
    divided_by_micro_batches,
    momentum_not_kept,
    ids_in_four_bytes,
    refused_one_counted,
    settings_not_compared,
    off_manifold_taken,
    anchor_not_subtracted,
    shared_gradient_not_summed,
    activations_kept_by_order,
    payload_cut_off,
    payload_one_way,
    payload_ties_away,
    payload_of_activations,
    newer_codebook_decodes,
    learning_copy_encodes,
    cursor_not_kept,
    ties_to_higher,
    residual_not_subtracted,
    packed_within_bytes,
    zero_word_learned,
    unused_words_decay,
    averaged_over_all,
    one_order_for_all_turns,
    codebooks_not_compared,
    learned_not_kept,
    failure_swallowed,
    replica_left_out,
    own_gradient_followed,
    own_part_first,
    divided_twice,
    wrong_ranks_joined,
    shared_table_masked,
    whole_copies,
    rank_not_compared,
    climbs,
    words_before_they_come,
    cursor_by_steps,
    oblique,
    first_on_devices, ///< the numbers of device code's, 59 to 68
    last_on_devices = first_on_devices + 9,
    projected_where_taken,
    moment_of_refused_step,
    refused_step_taken,
    refusal_not_told,
    start_not_finite_taken,
    columns_by_themselves,
    replicas_not_compared,
    scores_trusted,
    checkpoints_settings_ignored,
    wrong_end, ///< one behind the last
};

/// Both ends as plain as can be, with that known bug. They share no code with distributed/mapl.
[[nodiscard]] EndFactory plain_ends(Wrong wrong);

} // namespace truestep::properties::mapl
