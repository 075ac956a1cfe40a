// Properties 2, 3 and 4 of section 8: what the mask holds, and what is on and off it.
#include <algorithm>
#include <cmath>

#include "by_hand.hpp"
#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

/// Calls look(step from 1, rank, view before, view after) for every step and rank.
template <class Look>
void every_view(Trial& trial, Look look) {
    trial(trial.steps());
    const RecordedRun& ran = trial.runs().back();
    for (std::size_t step = 0; step < ran.history.after.size(); ++step)
        for (int rank = 0; rank < trial.run().workers; ++rank)
            look(static_cast<Index>(step) + 1, rank, before(ran, step, rank),
                 ran.history.after[step].views[static_cast<std::size_t>(rank)]);
}

void off_the_mask(Trial& trial) {
    const Case& run = trial.run();
    every_view(trial, [&](Index step, int rank, const ObservedState& was, const ObservedState& is) {
        const auto decay = static_cast<float>(1.0 - learning_rate_of(run, step) * run.weight_decay);
        for (Index index = 0; index < run.size(); ++index) {
            if (selected(is.mask, index))
                continue;
            const auto at = static_cast<std::size_t>(index);
            trial.expect_at(bits_of(is.moment[at]) == 0U, step, index, "off the mask m is not +0", rank);
            trial.expect_at(bits_of(is.parameters[at]) == bits_of(was.parameters[at] * decay), step, index,
                            "off the mask w did not just decay", rank);
        }
    });
}

void on_the_mask(Trial& trial) {
    every_view(trial, [&](Index step, int rank, const ObservedState&, const ObservedState& is) {
        for (Index index = 0; index < trial.run().size(); ++index)
            if (selected(is.mask, index))
                trial.expect_at(bits_of(is.residual[static_cast<std::size_t>(index)]) == 0U, step, index,
                                "on the mask the residual is not +0", rank);
    });
}

void replicas_agree(Trial& trial) {
    const RunRecording& history = trial(trial.steps());
    for (std::size_t step = 0; step < history.after.size(); ++step)
        for (std::size_t rank = 1; rank < history.after[step].views.size(); ++rank) {
            ObservedState expected = history.after[step].views.front();
            const ObservedState& other = history.after[step].views[rank];
            expected.residual = other.residual; // each has its own
            trial.same_view(static_cast<Index>(step) + 1, static_cast<int>(rank), expected, other);
        }
    for (std::size_t rank = 1; rank < history.coming.size(); ++rank)
        trial.same_mask("next_mask", trial.run().steps, static_cast<int>(rank), history.coming.front(),
                        history.coming[rank]);
}

void count_is_right(Trial& trial) {
    trial.classify(
        std::ranges::any_of(trial.run().tensors, [](const auto& tensor) { return tensor.always_dense; }),
        "an always-dense tensor");
    const RunRecording& history = trial(trial.steps());
    for (std::size_t step = 0; step < history.after.size(); ++step)
        for (std::size_t rank = 0; rank < history.after[step].views.size(); ++rank)
            check_count(trial, history.after[step].views[rank].mask, static_cast<Index>(step) + 1,
                        static_cast<int>(rank));
    for (std::size_t rank = 0; rank < history.coming.size(); ++rank)
        check_count(trial, history.coming[rank], trial.run().steps + 1, static_cast<int>(rank));
}

/// Checks S_{t+1} against the owners' own c of step t, and S_1 against c_1.
void order_is_right(Trial& trial) {
    const Case& run = trial.run();
    trial.classify(run.data == problem::DataClass::ties || run.data == problem::DataClass::dyadic,
                   "equal scores");
    const RunRecording& history = trial(trial.steps());
    const RecordedRun& ran = trial.runs().back();
    const std::vector<SegmentByHand> segments = segments_by_hand(run);
    const auto look = [&](const std::vector<std::uint8_t>& mask, std::size_t made_in, Index t) {
        for (const SegmentByHand& segment : segments) {
            const auto owner = static_cast<std::size_t>(segment.owner);
            const ObservedState& was = before(ran, made_in, segment.owner);
            const auto score = [&](Index index) {
                const auto at = static_cast<std::size_t>(index);
                return bits_of(
                    std::abs(local(run, was.moment[at], ran.scenario.actions[made_in].gradients[owner][at],
                                   was.residual[at])));
            };
            // The last of the selected, in section 5's total order: larger first, then the lower index.
            Index last = -1;
            for (Index index = segment.begin; index < segment.end; ++index)
                if (selected(mask, index) && (last < 0 || score(index) <= score(last)))
                    last = index;
            for (Index index = segment.begin; last >= 0 && index < segment.end; ++index)
                if (!selected(mask, index))
                    trial.expect_at(
                        score(index) < score(last) || (score(index) == score(last) && index > last), t,
                        index,
                        "it is not selected for this step, and comes before coordinate " +
                            std::to_string(last) + ", which is, by |c| of their owner a step earlier",
                        segment.owner);
        }
    };
    if (density_by_hand(run, 1) < 1.0)
        look(history.after[0].views[0].mask, 0, 1);
    for (std::size_t step = 0; step + 1 < history.after.size(); ++step)
        look(history.after[step + 1].views[0].mask, step, static_cast<Index>(step) + 2);
    look(history.coming[0], history.after.size() - 1, run.steps + 1);
}

} // namespace

void check_count(Trial& trial, const std::vector<std::uint8_t>& mask, Index t, int rank) {
    const Case& run = trial.run();
    const double density = density_by_hand(run, t);
    for (const SegmentByHand& segment : segments_by_hand(run)) {
        Index count = 0;
        for (Index index = segment.begin; index < segment.end; ++index)
            count += selected(mask, index) ? 1 : 0;
        const double product = density * static_cast<double>(segment.size());
        const Index k = segment.always_dense
                            ? segment.size()
                            : std::min(segment.size(), std::max<Index>(1, static_cast<Index>(product)));
        trial.expect_at(count == k, t, segment.begin,
                        "the mask has " + std::to_string(count) +
                            " coordinates in the segment that begins here, of " +
                            std::to_string(segment.size()) + "; it should have " + std::to_string(k),
                        rank);
    }
    for (Index index = run.size(); index < static_cast<Index>(mask.size()) * 8; ++index)
        trial.expect_at(!selected(mask, index), t, index, "the mask has a bit beyond the last coordinate",
                        rank);
}

std::vector<Property> mask_properties() {
    return {
        {2, "mask.off", "Off the mask M is +0 and w only decays.", any_case, off_the_mask, usual_demands(),
         only_scape},
        {2, "mask.on", "On the mask every residual is +0, if the payload is fp32.", any_case, on_the_mask,
         usual_demands(), only_scape,
         [](Case& run) { run.payload = problem::Payload::fp32; }}, // see payload.residual
        {3, "replicas", "w, m and S are the same bits on every rank, always.", any_case, replicas_agree,
         usual_demands()},
        {4, "mask.count",
         "Every segment has exactly k bits, an always-dense one all, and there is none beyond d.", any_case,
         count_is_right, usual_demands({"an always-dense tensor"}), only_scape},
        {4, "mask.order",
         "The selected are the first of their segment by |c| of its owner, one step earlier, and by index "
         "where "
         "equal.",
         any_case, order_is_right, usual_demands({"equal scores"}), only_scape},
    };
}

} // namespace truestep::properties::scape
