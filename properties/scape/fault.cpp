// A rank that fails ends all ranks, and each one's error names it. Values of ranks cannot show this.
#include <algorithm>
#include <cctype>

#include <truestep/problem/mix64.hpp>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

/// Whether the text names the rank: "rank 2", but not "rank 23"; or among several, "ranks 1 and 2".
bool names_rank(const std::string& text, int rank) {
    const std::string number = std::to_string(rank);
    const auto is_digit = [&](std::size_t at) {
        return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
    };
    for (std::size_t at = text.find("rank"); (at = text.find(number, at)) != std::string::npos;
         at += number.size())
        if (!is_digit(at - 1) && !is_digit(at + number.size()))
            return true;
    return false;
}

/// A damaged mask ends the run, or it is another mask of as many bits: nobody can tell that. Returns
/// whether one was damaged.
bool a_damaged_mask_is_told(Trial& trial, int rank, const RunRecording& undamaged, Scenario scenario) {
    const RunRecording& ran = trial.failing(std::move(scenario));
    trial.classify(ran.fault_came, "a mask was damaged");
    if (!ran.fault_came) {
        trial.expect(ran.error.empty(), "the run ended before its end: " + ran.error);
        return false;
    }
    for (const ActionRecording& seen : ran.after)
        for (const Outcome& outcome : seen.outcomes)
            if (outcome.kind != Outcome::Kind::taken)
                return true; // what other coordinates add up to may have to be refused
    const auto at = static_cast<std::size_t>(rank);
    const std::string what = "a mask came damaged to rank " + std::to_string(rank);
    for (std::size_t other = 0; other < ran.ended.size(); ++other) {
        const std::string& told = ran.ended[other];
        // A rank that already has all that it needs goes to its end.
        trial.expect(told.empty() ? !ran.coming[other].empty() : told.find("mask") != std::string::npos,
                     what + ", and rank " + std::to_string(other) +
                         (told.empty() ? " neither ends nor is told" : " is not told of a mask: " + told));
    }
    if (!ran.ended[at].empty())
        return true;
    bool differs = ran.coming[at] != undamaged.coming[at];
    for (std::size_t step = 0; step < ran.after.size(); ++step) {
        const std::vector<std::uint8_t>& mask = ran.after[step].views.at(at).mask;
        differs = differs || mask != undamaged.after[step].views.at(at).mask;
        check_count(trial, mask, static_cast<Index>(step) + 1, rank);
    }
    check_count(trial, ran.coming[at], trial.run().steps + 1, rank);
    trial.expect(differs, what + ", which takes it for the undamaged one");
    return true;
}

/// In eight ways, in each variant: in some the host cannot read the masks. Returns whether one was damaged.
bool damaged_masks_are_told(Trial& trial, Fault fault, Scenario scenario, std::size_t step) {
    const std::size_t variants = trial.implementation().variants().size();
    bool any = false;
    for (std::size_t variant = 0; variant < variants; ++variant) {
        scenario.setup.variant = variant;
        scenario.actions[step].fault.reset();
        const RunRecording& undamaged = trial(scenario);
        bool comes = true;
        for (std::size_t turn = variant; comes && turn < 8; turn += variants) {
            fault.damage = problem::mix64(8 * static_cast<std::uint64_t>(trial.run().chosen_place) + turn);
            scenario.actions[step].fault = fault;
            comes = a_damaged_mask_is_told(trial, fault.rank, undamaged, scenario);
            any = any || comes;
        }
    }
    return any;
}

void all_ranks_are_told(Trial& trial) {
    const Case& run = trial.run();
    const Index step = run.chosen_place % run.steps + 1;
    Fault fault;
    fault.rank = run.chosen_rank % run.workers;
    Scenario scenario = trial.steps();
    const auto action = static_cast<std::size_t>(step - 1);
    // Only those that say what differs check masks, too: others may send some that any bit fits.
    if (run.seed % 4 == 2 && trial.implementation().names_differences() &&
        damaged_masks_are_told(trial, fault, scenario, action))
        return;
    // A step has about so many exchanges; with buckets it has more.
    constexpr Index most_exchanges = 6;
    fault.leaves = run.chosen_place % 4 == 3;
    fault.exchanges = static_cast<std::uint64_t>((run.chosen_place / 4) % most_exchanges);
    scenario.actions[action].fault = fault;
    const RunRecording& ran = trial.failing(std::move(scenario));
    trial.classify(ran.fault_came && fault.leaves, "a rank left");
    trial.classify(ran.fault_came && !fault.leaves, "a link was cut");
    if (!ran.fault_came)
        return trial.expect(ran.error.empty(), "the run ended before its end: " + ran.error);
    const std::string what = "rank " + std::to_string(fault.rank) +
                             (fault.leaves ? " left before step " : "'s link was cut in step ") +
                             std::to_string(step);
    for (std::size_t rank = 0; rank < ran.ended.size(); ++rank) {
        const std::string& told = ran.ended[rank];
        const std::string who = "rank " + std::to_string(rank);
        trial.expect(!told.empty(), what + ", and " + who + " went on as if nothing had been");
        trial.expect(static_cast<int>(rank) == fault.rank || names_rank(told, fault.rank),
                     what + ", and " + who + " does not name it: " + told);
    }
}

} // namespace

std::vector<Property> fault_properties() {
    return {
        {0,
         "fault",
         "A rank whose link is cut, or that leaves, ends all ranks, and they name it; a damaged mask is "
         "told.",
         any_case,
         all_ranks_are_told,
         {"a link was cut", "a rank left"},
         [](const Implementation& implementation) {
             if (!implementation.communicates())
                 return std::string("it sends no messages");
             return std::string(implementation.communicator() == "mpi"
                                    ? "its ranks are processes, which a failure ends"
                                    : "");
         },
         [](Case& run) { run.workers = std::max(run.workers, 2); }}};
}

} // namespace truestep::properties::scape
