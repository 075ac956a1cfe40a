// A rank that fails ends all ranks, and each one's error names it. Values of ranks cannot show this.
#include <algorithm>
#include <cctype>

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

/// A damaged mask ends the run, or it is another mask of as many bits: nobody can tell that.
void a_damaged_mask_is_told(Trial& trial, const Fault& fault, Scenario scenario) {
    const RunRecording& undamaged = trial(trial.steps());
    const RunRecording& ran = trial.failing(std::move(scenario));
    trial.classify(ran.fault_came, "a mask was damaged");
    if (!ran.fault_came)
        return trial.expect(ran.error.empty(), "the run ended before its end: " + ran.error);
    const auto rank = static_cast<std::size_t>(fault.rank);
    const std::string who = "a mask came damaged to rank " + std::to_string(rank);
    const std::string& told = ran.ended.at(rank);
    if (!told.empty())
        return trial.expect(told.find("mask") != std::string::npos,
                            who + ", which ends, but does not say so: " + told);
    bool differs = ran.coming.at(rank) != undamaged.coming.at(rank);
    check_count(trial, ran.coming.at(rank), trial.run().steps + 1, fault.rank);
    for (std::size_t step = 0; step < ran.after.size(); ++step) {
        const std::vector<std::uint8_t>& mask = ran.after[step].views.at(rank).mask;
        differs = differs || mask != undamaged.after[step].views.at(rank).mask;
        check_count(trial, mask, static_cast<Index>(step) + 1, fault.rank);
    }
    trial.expect(differs, who + ", which takes it for the undamaged one");
}

void all_ranks_are_told(Trial& trial) {
    const Case& run = trial.run();
    const Index step = run.chosen_place % run.steps + 1;
    // A step has about so many exchanges; with buckets it has more.
    constexpr Index most_exchanges = 6;
    Fault fault;
    fault.rank = run.chosen_rank % run.workers;
    fault.leaves = run.chosen_place % 4 == 3;
    fault.exchanges = static_cast<std::uint64_t>((run.chosen_place / 4) % most_exchanges);
    Scenario scenario = trial.steps();
    std::optional<Fault>& given = scenario.actions[static_cast<std::size_t>(step - 1)].fault;
    given = fault;
    if (run.chosen_place % 4 == 2 && trial.implementation().names_differences()) {
        given->bit = run.seed;
        return a_damaged_mask_is_told(trial, fault, std::move(scenario));
    }
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
    return {{0,
             "fault",
             "A rank whose link is cut, or that leaves, ends all ranks, and they name it; so does a mask "
             "that came "
             "damaged.",
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
