// Lists SCAPE's known bugs with their numbers, descriptions and symptoms.
#include <truestep/properties/scape/planted/bugs.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <truestep/gpu/scape/planted.hpp>

#include "devices.hpp"

namespace truestep::properties::scape::planted {

namespace {

/// The bugs that shipped: what is wrong, and where it was seen with its symptom.
std::vector<std::pair<std::string, std::string>> shipped() {
    return {
        {"the update has the wrong sign", "torchft #76. w goes uphill, from the first step."},
        {"b1 and 1-b1 change places in c",
         "torchft #233. The old moment weighs what the gradient should. Needs a beta1 other than 1/2."},
        {"the clipped values are made in a copy, and dropped",
         "torchft #233. Nothing is ever clipped. Needs clipping that bites."},
        {"the bias correction's counter is not in the checkpoint",
         "pytorch #74556. Corrections begin anew. Needs a restart and a bias correction."},
        {"a mask on its way when a state is restored arrives over the restored one",
         "hivemind #417. The step after it uses the other run's mask. Needs a restore into a live "
         "optimizer, and a density below 1."},
        {"what does not fill a bucket of 16 is never reduced",
         "torchft local_sgd. The last values of a range are their owner's alone. Needs more than 16 "
         "selected in a range, and P >= 2."},
        {"every bucket of 4 is completed with the last one's means",
         "torchft local_sgd. Values land on other coordinates. Needs 8 selected in a range."},
        {"a rank alone in its group averages nothing, and gets zeros",
         "hivemind #450. M is 0. Needs P = 1."},
        {"a rank alone in its group adds its buffer to itself",
         "Megatron-LM #6660. M is twice c. Needs P = 1."},
        {"the squares of the norm are added in fp32",
         "Megatron-LM #6660. The last digits of the norm, and a factor of 0 where it overflows. Needs "
         "clipping that bites."},
        {"what every rank holds enters the norm once a rank",
         "TransformerEngine fork #715. The norm is too large. Needs clipping that bites, an always-dense "
         "tensor and P >= 2."},
        {"each range is clipped by a norm of its own, on all ranks alike",
         "DeepSpeed #8475. The factor depends on who owns what. Needs clipping that bites and two ranges "
         "with something in them."},
        {"the gradient's buffer is not zeroed between steps",
         "DeepSpeed #7839. The second step has the first one's gradient, too."},
        {"a new mask is multiplied into the old one",
         "DeepSpeed #1278. What has left the mask never comes back. Needs a mask that changes."},
        {"the payload's buffer is cleared while it is on its way",
         "DeepSpeed #5059. Other ranks get zeros, but only where the exchange reads its buffer late: "
         "Traffic::payload started late."},
        {"the residual is kept by number of segment, while segments change",
         "pytorch #48867. Residuals belong to other coordinates. Needs a restart that cuts otherwise, and "
         "a density below 1."},
        {"the step counter runs once for every tensor",
         "pytorch #74737. Bias corrections fade too soon. Needs one, and two tensors."},
        {"the last rank goes through the coordinates in another order",
         "nanotron #37. Its values are added to other coordinates' ones. Needs P >= 2 and two selected in "
         "a range."},
        {"masks are coded at the coming density, and decoded at the one in use",
         "mxnet #20007. The mask after a full one is taken for full. Needs a density that falls from 1."},
        {"places in the payload are counted in 16 bits",
         "BytePS #299. Needs more than 65,536 selected coordinates."},
        {"the bias correction's counter has 8 bits",
         "of the kind of BytePS #299. Needs 256 steps and a bias correction."},
        {"the payload is divided by its greatest magnitude and multiplied again",
         "hivemind #266. Zeros become NaN, and what is far smaller than the greatest is lost. Needs a rank "
         "with nothing to say, or both."},
        {"k follows the schedule's start, whatever the step",
         "powersgd #6. Too many coordinates. Needs a density that changes."},
        {"weights decay only in the warm-up, while the mask is full",
         "Bagua #485. Needs weight decay and a density below 1."},
        {"one rank starts from other weights",
         "prime-diloco #13. The last rank's first parameter differs. Needs P >= 2."},
        {"the moment is kept in bf16", "OpenTau #181. m has 8 significant bits."},
        {"the mean over the ranks is taken of the residual, too",
         "Megatron-LM #3023. What waits shrinks by P in each step. Needs P >= 2 and a density below 1."},
        {"the learning rate is read once", "of the kind of powersgd #6. Needs a rate that changes."},
        {"a learning rate of 0 skips the step",
         "of the kind of Bagua #485. Moment, residual and mask stand still. Needs a rate of 0."},
        {"the checkpoint holds the mask in use for the coming one",
         "torchft #277. The first step after a restart uses an old mask. Needs a restart and a mask that "
         "changes."},
        {"the bias correction's counter has 16 bits",
         "of the kind of BytePS #299. Needs 65,536 steps and a bias correction."},
        {"a parameter that has become infinite is not noticed",
         "of the kind of Megatron-LM #6660. The run goes on with it. Needs values that grow without "
         "bound."},
        {"a tensor that is larger than a bucket is never reduced",
         "torchft local_sgd. M is the rank's own c there. Needs a bucket of one tensor of more than 8, and "
         "P >= 2."},
        {"every bucket is completed with the last one's means",
         "torchft local_sgd. Values land in other tensors. Needs two buckets."},
        {"the residual is kept by number of bucket, while buckets are rebuilt",
         "pytorch #48867. Residuals belong to other coordinates. Needs buckets that change, and a density "
         "below 1."},
        {"only the last micro-batch is reduced",
         "DeepSpeed #7985. M is too small. Needs a gradient in parts."},
        {"all micro-batches but the last are reduced",
         "Megatron-LM #7186. M is too small. Needs a gradient in parts."},
        {"the micro-batches' sum is divided by their number",
         "of the kind of Megatron-LM #3023. M is too small. Needs a gradient in parts."},
        {"the micro-batches of a refused step stay",
         "of the kind of DeepSpeed #7839. The next step has them, too, or is refused for them. Needs a "
         "refused step whose gradient came in parts."},
        {"1/P is applied to all that is accumulated, with every micro-batch",
         "Megatron-LM #3023. The first parts count least. Needs a gradient in parts, and P >= 2."},
        {"micro-batches are added from the last to the first",
         "of the kind of nanotron #37. The last bit differs. Needs three parts, and sums that round."},
        {"the means of rebuilt buckets are written where the first step's buckets lay",
         "pytorch #51427. Values land on other coordinates. Needs buckets that change."},
        {"micro-batches are checked, their sum is not", "of the kind of Megatron-LM #6660. A sum that has "
                                                        "overflowed goes on. Needs parts near the limit."},
        {"1/P is applied to the buckets before, with every bucket",
         "Megatron-LM #3023. The first buckets' means are too small. Needs two buckets, and P >= 2."},
    };
}

/// Bugs of the norm's second version and of section 21.
std::vector<std::pair<std::string, std::string>> of_second_edition() {
    return {
        {"the norm's blocks are added one after another, as version 1 has it",
         "The last digits of the norm. Needs a clip factor that hangs on them, and four blocks."},
        {"the norm's odd last block is added a level early",
         "The last digits of the norm. Needs a clip factor that hangs on them, and five blocks."},
        {"the norm's odd last block is dropped",
         "The norm is too small. Needs clipping that bites and three "
         "blocks."},
        {"what rounding to bf16 takes is dropped",
         "The residual on the mask is 0: what is lost never comes back. Needs a payload of bf16."},
        {"the payload is cut off, not rounded", "Always towards 0. Needs a payload of bf16."},
        {"what rounding to bf16 takes is kept with the wrong sign",
         "The residual on the mask doubles the error. Needs a payload of bf16."},
        {"payloads of bf16 are added in bf16",
         "M has 8 significant bits. Needs a payload of bf16 and P >= 2."},
        {"subnormal payloads are flushed to zero",
         "They wait in the residual for ever. Needs a payload of bf16 and values below 2^-126, or one of "
         "e5m2."},
        {"each rank scales its payload by its own exponent",
         "The owners read other values than were sent. Needs a payload of e5m2 and P >= 2."},
        {"the payload's scale is made from this step's values",
         "What would saturate, or vanish, does not. Needs a payload of e5m2 and a second step."},
        {"the payload's scale is made from what is off the mask, too",
         "The least values vanish, the greatest do not saturate. Needs a payload of e5m2, a second step "
         "and "
         "a density below 1."},
        {"what saturates loses its excess", "It is not in the residual. Needs a payload of e5m2 and a "
                                            "value of 1.75 times the scale's or more."},
        {"what is too large for the payload becomes infinite",
         "The step halts. Needs a payload of e5m2 and a value of 1.875 times the scale's or more."},
        {"the payload's scale is not in the checkpoint",
         "The first step after it has its own. Needs a payload of e5m2 and a restart."},
    };
}

/// Bugs that show only with damaged checkpoints, with states that gradients do not reach, or with steps of
/// zeros.
std::vector<std::pair<std::string, std::string>> of_damage() {
    return {
        {"the last block of a checkpoint is not in its checksum",
         "Residuals that nobody had are restored. Needs a checkpoint that is damaged in the last of its "
         "bytes."},
        {"the head of a checkpoint is not in its checksum",
         "The run goes on from another step. Needs a checkpoint that is damaged in the first of its "
         "bytes."},
        {"a rank that finds its checkpoint damaged tells nobody",
         "The others go on from it. Needs P >= 2 and a checkpoint that is damaged where one rank reads "
         "it."},
        {"half of a damaged checkpoint is restored before it is refused",
         "The parameters are those of the checkpoint, the rest is as it was. Needs a checkpoint that is "
         "damaged."},
        {"a payload that overflows bf16 is sent as an infinity",
         "The run halts where the step had to be refused. Needs a payload of bf16 and a residual of nearly "
         "2^128."},
        {"a payload that overflows is told before another rank's refused gradient",
         "The refusal names the wrong place. Needs a payload of bf16, a residual of nearly 2^128 and a "
         "gradient that has to be refused."},
        {"a step of zeros takes the payload's scale along",
         "All that is sent next saturates to nearly nothing. Needs a payload of e5m2, and a step of zeros "
         "that is not the first."},
    };
}

/// Bugs of ranks in groups.
std::vector<std::pair<std::string, std::string>> of_groups() {
    return {
        {"groups are forgotten",
         "The ranks are added one after another. Needs groups, and sums that round: c_0 + (c_1 "
         "+ c_2) is another than (c_0 + c_1) + c_2."},
        {"the mean of the groups' means",
         "Ranks of a small group weigh more. Needs groups of different sizes; of equal ones "
         "the last bit differs."},
        {"the groups' sums are added last to first",
         "The last bit of M differs. Needs 3 groups and sums that round."},
        {"a handler begins with its own values",
         "The last bit of M differs where it is not its group's first. Needs a group of 3 "
         "among others, and sums that round."},
        {"the first group's last rank is added to the second group",
         "The last bit of M differs. Needs groups, a first one of 2 ranks or more, and sums "
         "that round."},
        {"the groups' sums travel in bf16",
         "M has 8 significant bits of each. Needs groups and a payload of bf16."},
    };
}

/// Bugs of section 21 where the owner rounds the mean, too.
std::vector<std::pair<std::string, std::string>> of_rounded_means() {
    return {
        {"what rounding the mean takes is dropped",
         "It is in nobody's residual. Needs a payload of bf16_both or e5m2_both and P >= 2."},
        {"every rank rounds the mean for itself, and keeps what that takes",
         "The residuals have it P times, and M travels in fp32. Needs a payload of bf16_both or "
         "e5m2_both and P >= 2."},
        {"what rounding the mean takes is not multiplied by P",
         "The owner's residual has a P-th of it. Needs a payload of bf16_both or e5m2_both and P >= 2."},
        {"the owner goes on with the mean as it was before it was rounded",
         "Replicas part. Needs a payload of bf16_both or e5m2_both and P >= 2."},
    };
}

/// Bugs that show only if ranks are given what they must not begin with.
std::vector<std::pair<std::string, std::string>> of_what_is_given() {
    return {
        {"nobody compares what the ranks were given",
         "They go on, each with its own settings and parameters. Needs P >= 2, and one that was given "
         "something else."},
        {"parameters that are not finite are taken",
         "The first step halts, or spoils more. Needs such a start."},
        {"nobody compares the states that ranks go on from",
         "One goes on from another step, or with another mask. Needs P >= 2 and a state that is given."},
        {"nobody compares the ranks' buckets",
         "Values land on other coordinates, or an exchange fails. Needs buckets that differ, or in which a "
         "tensor is missing or comes twice."},
    };
}

/// Second forms of bugs that shipped in two forms, beyond the first list.
std::vector<std::pair<std::string, std::string>> other_halves() {
    return {
        {"where every rank holds something whole, nothing else enters the norm",
         "Megatron-LM #5916. The norm is too small, and too little is clipped. Needs clipping that bites, "
         "an always-dense tensor and one that is not."},
        {"gradients are divided by a loss scale that was never applied",
         "DeepSpeed #7839. They enter c as a 65,536th of what they are."},
    };
}

std::vector<Description> all() {
    const std::vector<std::pair<std::string, std::string>> texts{
        {"payload from the own shard only, divided by P",
         "M is the owner's c/P: no other rank's gradient ever enters. Needs P >= 2."},
        {"mean taken twice", "M is too small by the factor P. Needs P >= 2."},
        {"sum in place of mean", "M is too large by the factor P. Needs P >= 2."},
        {"one rank's values used for all", "M is rank 0's c; the other ranks learn nothing. Needs P >= 2."},
        {"residual never added", "What is off the mask at one step is lost at the next. Needs a density "
                                 "below 1 and a second step."},
        {"residual not cleared where sent",
         "What was sent is sent again; shows at once in the residual, in M from the second step."},
        {"residual cleared everywhere", "What is off the mask is lost. Needs a density below 1."},
        {"unselected momentum dropped",
         "A coordinate that leaves the mask loses b1*m. Needs a mask that changes and beta1 > 0."},
        {"residual decayed by b1",
         "Old gradients fade while they wait. Needs a density below 1 and a second step."},
        {"mask used in the step that made it (no delay)",
         "The masks differ from the second step, where the owner's choice has changed; the mask has "
         "nothing to "
         "overlap with."},
        {"mask two steps late",
         "The second step repeats the first one's mask, and all later ones lag. Needs a density below 1."},
        {"score from the raw gradient", "A coordinate's residual and moment never bring it onto the mask. "
                                        "Needs a second step, which has both."},
        {"score without the residual",
         "Small gradients that add up never get their turn. Needs a density below 1 and a second step."},
        {"score without magnitude",
         "Large negative values are passed over. Needs a density below 1 and both signs in a segment."},
        {"score after the residual reset",
         "What is on the mask scores 0 and leaves it: the mask alternates. Needs a density below 1."},
        {"score from the average",
         "On the mask the owner scores M, not its own c. Needs P >= 2 and a density below 1."},
        {"ties to the higher index",
         "Other coordinates of equal magnitude. Needs equal scores at the cut."},
        {"k rounded up", "One coordinate more in each segment. Needs a product of density and size that is "
                         "not whole, above 1."},
        {"k over the whole model in place of per segment",
         "Segments with small gradients starve. Needs an owner of two segments that are not always dense."},
        {"at least one per segment forgotten",
         "Segments smaller than 1/density are never sent. Needs such a segment."},
        {"always-dense ignored",
         "Norms and biases are thinned out. Needs an always-dense tensor of 2 or more."},
        {"m kept off the mask",
         "m is not +0 off the mask and enters c again and again. Needs a mask that changes."},
        {"new M in the denominator", "Another v. Needs beta2 > 0."},
        {"missing division by 1-b1", "ghat is too small by the factor 1-b1. Needs beta1 > 0."},
        {"residual-laden c taken for g", "The mean of c goes into v in place of ghat. Needs beta1 > 0."},
        {"bias correction one step off",
         "The exponent of beta is t+1; largest at the first steps. Needs a bias correction."},
        {"second correction missing", "adam: sqrt(v) is not divided by sqrt(C2), at once; momentum: q is "
                                      "m, not m/C1, from the second step."},
        {"eps inside the root",
         "Steps of small gradients shrink. Vanishes where v is much larger than eps."},
        {"decay only on the mask",
         "Off the mask w does not decay. Needs weight decay and a density below 1."},
        {"decay after the update", "lr*u is decayed too. Needs weight decay."},
        {"decay twice on the mask", "w shrinks twice as fast where it is updated. Needs weight decay."},
        {"replica drift: one rank does not decay",
         "The last rank's w differs from the others'. Needs weight decay and P >= 2."},
        {"fused multiply-add", "The last bit differs. Needs products that are not exact."},
        {"reverse rank order", "The last bit of M differs. Needs P >= 3 and sums that round."},
        {"double accumulation", "The last bit of M differs. Needs P >= 3 and sums that round."},
        {"reciprocal in place of division",
         "The last bit of M or ghat differs. Needs a P or a 1-b1 that is no power of two."},
        {"last, shorter range cut off",
         "The last coordinates get M = 0 and lose their residual. Needs a d that does not divide by P."},
        {"garbage bits beyond d", "The last byte of a mask holds ones past the end. Needs a d that does "
                                  "not divide by 8 and a full last "
                                  "segment."},
        {"packed offsets from the previous mask", "Values land on other coordinates. Needs P >= 2 and "
                                                  "counts per range that change: a density that falls, or "
                                                  "a restart."},
        {"one rank keeps its own mask", "The last rank's mask, and with it all of its state, differs. "
                                        "Needs P >= 2 and a density below 1."},
        {"mask buffer reused while in flight", "The coming mask loses its bits, but only where the "
                                               "exchange reads its buffer late: Traffic::mask started "
                                               "after the step's other exchanges."},
        {"clip by the local norm",
         "Each rank clips by its own range's norm: replicas drift. Needs clipping that bites and P >= 2."},
        {"clip before reconstruction", "M is clipped, and a gradient is reconstructed that nobody had. "
                                       "Needs clipping that bites and a second "
                                       "step."},
        {"clipped ghat, unclipped M", "The moment keeps what was clipped. Needs clipping that bites."},
        {"density one step off",
         "k of the coming mask is that of the step before. Needs a density that changes."},
        {"checkpoint without residual",
         "Nothing shows until a restart; then the residual is 0. Needs a density below 1."},
        {"residual lost when P shrinks",
         "The mean residual changes. Needs a restart with fewer ranks and a density below 1."},
        {"residual copied, not averaged, when P grows",
         "Residuals differ between new ranks, and their mean is another unless the new number is a "
         "multiple of the old. Needs a restart of 2 ranks or more with more ranks, and a density below 1."},
        {"NaN passed on", "A step with a NaN is not refused; M, or one rank's residual, turns NaN. "
                          "Infinities are still refused."},
        {"NaN refused on one rank only", "The rank with the NaN, infinity or huge value refuses, the "
                                         "others go on: the next exchange does not match, "
                                         "and the run ends. Needs P >= 2."},
        {"refused step already changed the residual",
         "After a refused step the residual holds its gradient. Needs a refused step that is not the "
         "first, and a "
         "density below 1."},
        {"flush to zero of subnormals",
         "Values below 2^-126 turn to 0. Needs such values: tiny gradients, or a cancellation."},
        {"sign of zero lost", "-0 turns to +0 in M or w. Needs a -0, which only underflow, a parameter of "
                              "-0 or a decay of 0 makes."},
        {"residual counted twice: the pass that stores it runs again over what it stored",
         "Off the mask the residual grows by twice what it should. Needs a density below 1."},
    };
    std::vector<Description> result;
    result.reserve(texts.size());
    for (const auto& [name, shows] : texts)
        result.push_back({static_cast<int>(result.size()) + 1, name, shows});
    for (Description& bug : on_devices_with(first_of_devices)->listed())
        result.push_back(std::move(bug));
    for (const auto& list : {shipped(), of_second_edition(), of_damage(), of_groups(), of_rounded_means()})
        for (const auto& [name, shows] : list)
            result.push_back({static_cast<int>(result.size()) + 1, name, shows});
    for (Description& bug : on_devices_with(first_of_device_payloads)->listed())
        result.push_back(std::move(bug));
    for (const auto& list : {of_what_is_given(), other_halves()})
        for (const auto& [name, shows] : list)
            result.push_back({static_cast<int>(result.size()) + 1, name, shows});
    result.push_back({static_cast<int>(result.size()) + 1, "a checkpoint of other settings is read",
                      "Needs a restart with another setting."});
    return result;
}

} // namespace

const gpu::DeviceMistakes* on_devices_with(int number) {
    constexpr std::size_t of_payloads = 2; // they were added later
    const std::span<const Description> all = gpu::scape::planted::bugs();
    static const std::array together{
        gpu::DeviceMistakes{first_of_devices, all.first(all.size() - of_payloads)},
        gpu::DeviceMistakes{first_of_device_payloads, all.last(of_payloads)}};
    const auto* const found =
        std::ranges::find_if(together, [number](const auto& some) { return some.has(number); });
    return found == together.end() ? nullptr : found;
}

bool is_of_devices(int number) {
    return on_devices_with(number) != nullptr;
}

const std::vector<Description>& bugs() {
    static const std::vector<Description> descriptions = all();
    return descriptions;
}

} // namespace truestep::properties::scape::planted
