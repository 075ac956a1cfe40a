// Lists MAPL's known bugs, and makes the implementation that has a given one.
#include "planted.hpp"

#include <initializer_list>
#include <string>
#include <utility>

#include "devices.hpp"
#include "implementation.hpp"
#include "plain.hpp"

namespace truestep::properties::mapl {

std::vector<gate::KnownBug> known_bugs() {
    std::vector<gate::KnownBug> all{
        {sender_part_only, "the sender's part of the gradient alone",
         "Of a reconstruction loss it is 0: A never learns."},
        {receiver_part_only, "the receiver's part of the gradient alone",
         "A learns, but not by its gradient."},
        {parts_averaged, "the parts averaged", "The gradient of A is half of what it is."},
        {updated_on_one_side, "A updated on the sender alone", "The sides part after the first step."},
        {shipped_late, "A shipped a step late", "The receiver decodes with the A of the step before."},
        {sym_forgotten, "sym forgotten in the projection", "gR is not tangent. Needs a rank of 2."},
        {projected_with_old, "the projection at the A of the step before",
         "Shows from the second step on."},
        {not_retracted, "A - a d without retraction", "A leaves the manifold, more with each step."},
        {five_iterations, "five iterations of Polar Express", "The usual five leave |d^T d - I| at 0.26."},
        {not_transposed_back, "the direction transposed and not transposed back",
         "For a tall matrix its entries land in other places. Needs a rank of 2, or signs."},
        {endless_scaled, "the endless polynomial scaled by 1.01 too",
         "Singular values settle at 1 - 2.4e-6. Needs a small matrix, where rounding is less."},
        {polar_of_gradient, "the polar of the gradient and not of m", "Shows from the second step on."},
        {momentum_after_polar, "momentum after the polar", "Directions are averaged, and no direction."},
        {senders_anchor, "anchors added with the sender's E", "Needs two anchors."},
        {rows_not_orthonormal, "P not orthonormal",
         "Anchors are put back at another length than they were "
         "taken off."},
        {anchor_gradient_sign, "the sign of dE of the sender", "Its anchor climbs."},
        {anchor_gradient_overwritten, "dE overwritten where ids repeat",
         "Needs two tokens with the same id."},
        {ids_as_bf16, "ids travel as bf16", "Exact up to 256 only."},
        {ids_of_another, "ids of the micro-batch before", "Needs two micro-batches, or two steps."},
        {dx_without_a, "dX without A^T", "dZ stands in its place. Needs another A than I."},
        {divided_by_micro_batches, "the gradient divided by the number of micro-batches",
         "Needs two of them."},
        {momentum_not_kept, "m not in the checkpoint", "Needs a restart after a first step."},
        {ids_in_four_bytes, "ids in four bytes always", "Right, but more on the wire than is needed."},
        {refused_one_counted, "a refused micro-batch leaves its trace in the gradient",
         "The call throws, and the sum has changed all the same."},
        {settings_not_compared, "settings of the two sides not compared",
         "Two sides that were started differently train on."},
        {off_manifold_taken, "a subspace off the manifold taken", "Z A^T is no projection from the start."},
        {anchor_not_subtracted, "the anchor added but not subtracted", "Needs anchors."},
        {shared_gradient_not_summed, "each side trains a shared anchor by its own part",
         "The one table becomes two."},
        {activations_kept_by_order, "one place for all micro-batches that are under way",
         "The last one's activations meet every gradient. Needs two."},
        {payload_cut_off, "a payload of 16 bits cut off and not rounded",
         "Each value is too near to 0. Needs values of more than 8 bits."},
        {payload_one_way, "a payload of 16 bits forward alone", "dZ travels in fp32 still."},
        {payload_ties_away, "a payload of 16 bits rounded away from 0 in the middle",
         "Needs values of 9 bits: dyadic data of several magnitudes."},
        {payload_of_activations, "what is compressed rounded to 16 bits, and Z besides",
         "X loses before it is compressed. Needs activations of more than 8 bits."},
        {newer_codebook_decodes, "the receiver decodes with the codewords that have just come",
         "The indices are of those before them. Shows once a codeword has moved."},
        {learning_copy_encodes, "the sender encodes with the copy that learns",
         "The receiver does not have it yet. Needs several subsets, or two micro-batches."},
        {cursor_not_kept, "the codebook's cursor not in the checkpoint", "Needs a restart inside a turn."},
        {ties_to_higher, "of two codewords that are as near the one of the higher index",
         "Needs codewords that are the same, or a value in the middle."},
        {residual_not_subtracted, "each round encodes the same vector", "Needs two rounds."},
        {packed_within_bytes, "an index's bits over the edge of a byte lost",
         "Needs indices of 3 or 5 bits, and several of them."},
        {zero_word_learned, "the first codeword learned like the others",
         "It is 0 no more: a round may make things worse."},
        {unused_words_decay, "codewords that nothing was nearest to shrink", "They are to stay."},
        {averaged_over_all, "a codeword's mean taken over all tokens", "Needs two codewords in use."},
        {one_order_for_all_turns, "the order of the codewords not renewed",
         "Right but for which of them travel when. Needs a second turn."},
        {codebooks_not_compared, "codebooks of the two sides not compared",
         "Two sides that were started differently go on."},
        {learned_not_kept, "the copy that learns not in the checkpoint",
         "It begins anew with what the receiver has. Needs several subsets, and a restart."},
        {failure_swallowed, "a neighbour's failure taken for an empty message",
         "The rank goes on with zeros. Needs a stage that dies."},
        {replica_left_out, "a replica left out of the mean that A follows",
         "A never learns from its micro-batches. Needs two replicas."},
        {own_gradient_followed, "each replica's A follows its own gradient",
         "The replicas part after the first step."},
        {own_part_first, "the mean added with the rank's own part first",
         "The replicas part by their rounding. Needs three, and sums that are not exact."},
        {divided_twice, "a stage's gradients divided by the replicas twice",
         "By the caller, and then in the mean: epsilon, clipping and AdamS's ratio see another size."},
        {wrong_ranks_joined, "a stage trained together with other stages",
         "Ranks are taken to be numbered stage after stage. Needs two replicas."},
        {shared_table_masked, "a shared anchor under the masks of two stages",
         "Each side selects other coordinates of it, and the one table becomes two. Needs SCAPE."},
        {whole_copies, "a replica's gradient of A sent to all others as a whole",
         "Right, but P/2 times as much on the wire. Needs three replicas."},
        {rank_not_compared, "the rank of the two sides not compared, and of A its first column alone",
         "Sides of two ranks begin together. Needs an A whose first columns are the other one's."},
        {climbs, "A + a d: up the gradient and not down", "Reconstruction gets worse with each step."},
        {words_before_they_come, "codewords read before they have come",
         "The receiver waits for indices and ids alone. Needs a message that comes in parts."},
        {cursor_by_steps, "the codebook's cursor kept as steps times micro-batches",
         "Needs steps of unequal numbers of them, and a restart inside a turn."},
        {oblique, "put back by another basis than A, in which Z is the same",
         "What was reached is reached again, but A B^T is not symmetric. Needs a rank below the width."}};
    for (gate::KnownBug& known_bug : known_bugs_on_devices().listed())
        all.push_back(std::move(known_bug));
    for (const gate::KnownBug& known_bug : std::initializer_list<gate::KnownBug>{
             {projected_where_taken, "momentum_first, and each share of m projected where it was taken",
              "m is what it should be, and A goes as project_first takes it in its second step."},
             {moment_of_refused_step, "m kept of a step whose A is refused",
              "A stays, and what is not finite is in m for ever. Needs a step that overflows."},
             {refused_step_taken, "the verdict of a step ignored",
              "A and m are taken, finite or not. Needs a step that overflows."},
             {refusal_not_told, "a step that was refused told as one that was taken",
              "A and m are right, and the caller does not learn why. Needs a step that overflows."},
             {start_not_finite_taken, "m or an anchor that is not finite taken at the start",
              "A alone is looked at."},
             {columns_by_themselves, "each column projected by itself: of sym(A^T g) the diagonal alone",
              "Right for columns in another order, and not for such as are rotated. Needs a rank of 2."},
             {replicas_not_compared, "replicas not compared at the start",
              "A follows the mean from other places. Needs two replicas."},
             {scores_trusted, "the nearest codeword taken by |c|^2 - 2 v c in fp32",
              "Rounding decides. Needs codewords that are nearly as near."},
             {checkpoints_settings_ignored, "a checkpoint is read though its run had other settings",
              "Needs a restart with another setting."}})
        all.push_back(known_bug);
    return all;
}

std::shared_ptr<const gate::Implementation> planted(int number,
                                                    const std::shared_ptr<const gate::Group>& group) {
    const std::string name = gate::name_of_planted(number, known_bugs().size());
    if (known_bugs_on_devices().has(number))
        return device_known_bug(number, name, group);
    return std::make_shared<GroupImplementation>(name, plain_ends(static_cast<Wrong>(number)), group,
                                                 gate::Placement{.names_differences = false});
}

} // namespace truestep::properties::mapl
