// Lists the known bugs of dense training, and makes an implementation with one of them.
#include "planted.hpp"

#include <algorithm>
#include <iterator>

#include "devices.hpp"
#include "plain.hpp"

namespace truestep::properties::dense {

std::vector<gate::KnownBug> known_bugs() {
    std::vector<gate::KnownBug> all{
        {plain_sgd, "plain SGD in place of the rule",
         "The loss goes down all the same. DeepSpeed did so with Muon at its default stage."},
        {no_first_correction, "the first moment is not corrected", "Adam's first steps are too small."},
        {no_second_correction, "the second moment is not corrected", "Adam's first steps are too large."},
        {epsilon_inside_root, "epsilon is added inside the root", "Small gradients move parameters less."},
        {decay_added_to_gradient, "AdamW adds its decay to the gradient", "It is Adam. Needs a decay."},
        {decay_forgotten, "the decay is forgotten", "Parameters grow. Needs a decay."},
        {square_forgotten, "the second moment is made of magnitudes",
         "Steps depend on the gradient's scale."},
        {momentum_starts_at_zero, "SGD's momentum begins with 0",
         "With dampening the first step is too small. Needs momentum and dampening."},
        {nesterov_forgotten, "Nesterov's look ahead is forgotten", "Needs nesterov."},
        {dampening_forgotten, "the dampening is forgotten",
         "Shows from the second step on. Needs dampening."},
        {cut_matrix,
         "a matrix across a border of partitions is orthogonalized from a partly reduced gradient",
         "All ranks agree, on the wrong update, so replicas look fine. DeepSpeed's ZeRO 1 and 2 did so."},
        {once_a_micro_batch, "Muon runs once a micro-batch",
         "Accumulation changes the run. Needs Muon and two micro-batches. DeepSpeed's ZeRO 3 did so."},
        {dealt_by_extents, "tensors are dealt to Muon by their number of extents",
         "An embedding is orthogonalized. Needs one beside a matrix."},
        {all_dealt_to_adamw, "placeholders are flat, so no matrix gets Muon",
         "All tensors are trained by AdamW. DeepSpeed's ZeRO 3 did so."},
        {one_iteration_less, "one iteration of the orthogonalization is missing",
         "Singular values spread. Needs Muon."},
        {not_normalized, "the matrix is not normalized before the iteration",
         "Large gradients blow up, small ones vanish. Needs Muon."},
        {scale_of_transposed, "Muon's learning rate is scaled by the transposed shape",
         "Needs a matrix that is not square."},
        {scale_forgotten, "Muon's learning rate is not scaled by the shape", "Needs Muon with a scale."},
        {own_momentum, "Muon's momentum adds the whole gradient",
         "Directions stay the same but for rounding; the stored momentum is too large."},
        {contribution_lost, "a tensor loses a contribution on all ranks but 0",
         "The gradient is too small there. DeepSpeed's ZeRO 2 did so with a parameter that is used twice."},
        {sum_for_mean, "sum in place of mean",
         "The gradient is P times too large. FSDP2 had it with gloo."},
        {divided_by_size, "the sum is divided by the number of values",
         "The step depends on the model's size. torchcomms had it with gloo."},
        {divided_by_ranks_only, "the sum is divided by the number of ranks only",
         "Needs several micro-batches."},
        {ranks_order_in_tree, "the ranks' sums are added in their order in place of the tree",
         "Bits depend on the number of ranks. Needs four ranks and order tree."},
        {micro_batches_before_tree, "a rank adds its micro-batches in their order in place of the tree",
         "Bits depend on the number of ranks. Needs four micro-batches and order tree."},
        {gradients_kept, "gradients are not cleared between steps", "Needs two steps."},
        {clipped_by_own_norm, "each rank clips by the norm of what it owns",
         "Needs two ranks and clipping."},
        {clipped_by_tensor, "each tensor is clipped by its own norm", "Needs two tensors and clipping."},
        {clipped_before_mean, "each rank clips its own sum before the mean", "Needs clipping."},
        {clip_scales_up, "clipping scales small gradients up", "Needs a norm below the limit."},
        {first_groups_rate, "all groups get the first one's learning rate", "Needs two groups."},
        {first_groups_decay, "all groups get the first one's decay", "Needs two groups."},
        {last_coordinate_left_out, "the last coordinate is never updated",
         "As where padding is cut off wrongly."},
        {own_parameters_stale, "rank 1 sees what others own a step late", "Ranks part. Needs two ranks."},
        {masters_from_copies, "masters are made of their copies again after each step",
         "Small updates vanish. Needs copies."},
        {copies_cut_off, "copies are cut off in place of rounded", "Parameters shrink. Needs copies."},
        {copies_travel_whole, "masters travel in place of copies",
         "Twice the traffic, the same bits. Needs copies."},
        {refused_by_one_rank, "only the rank with a gradient that is not finite refuses the step",
         "The others take it with zeros in its place."},
        {refused_counts, "a refused step counts", "Later corrections of Adam are wrong."},
        {refused_moves_moments, "a refused step shrinks the moments", "Needs momentum."},
        {count_lost, "a checkpoint lacks the number of steps", "Adam's corrections begin again."},
        {second_moment_lost, "a checkpoint lacks the second moment",
         "Steps are too large after a restart."},
        {masters_lost, "a checkpoint has the copies in place of the masters", "Needs copies."},
        {owners_of_before, "shards are read as if cut for the new number of ranks",
         "The state is put together in the wrong places. Needs a restart with other ranks."},
        {goes_on_alone, "a rank continues without one that has failed", "Ranks part."},
        {does_not_halt, "a state that is not finite does not halt the run", "NaN spreads."},
        {settings_not_compared, "ranks do not compare their settings",
         "Ranks part from the first step on."},
        {group_without_tensors_allowed, "impossible settings are not refused",
         "A group without tensors hides a wrong role."},
        {thread_share_lost, "a thread leaves its last coordinate out", "Needs several threads."},
        {default_decay, "AdamW takes its default for a decay of 0",
         "Parameters shrink by 0.01 lr a step. Needs no decay."},
        {rates_not_compared, "ranks do not compare their learning rates",
         "A rank whose schedule is off trains what it owns at another rate."},
        {refuses_alone, "a rank that lacks a micro-batch refuses the step alone",
         "The others take it with what they have, or wait."},
        {accumulation_ignored, "the sum is divided by all micro-batches though each is divided already",
         "Needs accumulation sum and several micro-batches."},
        {runs_mixed, "a checkpoint is read though one rank's file is of another run",
         "The state is of two runs. Needs a restart and a folder that two runs saved to."}};
    std::ranges::copy(known_bugs_on_devices().listed(), std::back_inserter(all));
    all.push_back({steps_not_compared, "ranks do not compare the step from which they begin again",
                   "Ranks part. Needs a rank that reads an older checkpoint."});
    all.push_back({iteration_in_fp32, "Muon iterates in fp32 where it is to keep bf16",
                   "Directions are better than they should be. Needs Muon in bf16."});
    all.push_back({parameters_not_compared, "ranks do not compare the parameters that they begin with",
                   "Ranks part. Needs one that begins with others."});
    all.push_back({checkpoints_settings_ignored, "a checkpoint is read though its run had other settings",
                   "Needs a restart with another setting."});
    return all;
}

std::shared_ptr<const gate::Implementation> planted(int number,
                                                    const std::shared_ptr<const gate::Group>& group) {
    const std::string name = gate::name_of_planted(number, number_of_bugs - 1);
    if (known_bugs_on_devices().has(number))
        return device_known_bug(number, name, group);
    return std::make_shared<GroupImplementation>(
        name,
        [bug = static_cast<Bug>(number)](const Beginning& beginning, distributed::Communicator& ranks) {
            return begin_plain(bug, beginning, ranks);
        },
        group);
}

} // namespace truestep::properties::dense
