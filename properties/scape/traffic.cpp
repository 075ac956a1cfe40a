// Property 9 of section 8: one payload exchange and one mask exchange per step, and their bytes.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <truestep/problem/tunable.hpp>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

using distributed::Traffic;

/// Whether the mask selects all, so that there is nothing to send about it.
bool is_full(const Scenario& scenario, Index t) {
    const problem::Problem& problem = scenario.setup.problem;
    return std::ranges::all_of(problem.segments, [&](const problem::Segment& segment) {
        return selected_count(segment, scenario.setup.density.at(t), problem.settings.k_rounding) ==
               segment.size();
    });
}

/// The size of each value.
std::uint64_t bytes_of_a_payload(const Case& run) {
    const problem::Payload format = problem::format_of(run.payload);
    return format == problem::Payload::fp32 ? 4 : format == problem::Payload::bf16 ? 2 : 1;
}

/// The size of each mean on its way back.
std::uint64_t bytes_of_a_mean(const Case& run) {
    return problem::rounds_mean(run.payload) ? bytes_of_a_payload(run) : 4;
}

/// The bytes that all ranks together send.
struct Formula {
    std::uint64_t payload;
    std::uint64_t moment;
    std::uint64_t less = 0; ///< how much less each may be
};

/// The formula of section 4, by the number of values of each owner; and of section 32: within each group to
/// and from the handlers, and across between handlers and owners, unless one is the other. If segments are
/// owned in turn, the owners of the ranges are not defined.
Formula formula_of(const Case& run, const std::vector<std::uint64_t>& of_owners) {
    const auto ranks = static_cast<std::uint64_t>(run.workers);
    std::uint64_t k = 0;
    for (const std::uint64_t values : of_owners)
        k += values;
    const problem::Groups groups = groups_of(run);
    if (!problem::has_levels(groups))
        return {bytes_of_a_payload(run) * k * (ranks - 1), bytes_of_a_mean(run) * k * (ranks - 1)};
    std::uint64_t inside = 0;
    std::uint64_t across = 0;
    std::uint64_t first = 0;
    for (const int size : groups) {
        const auto of_group = static_cast<std::uint64_t>(size);
        inside += k * (of_group - 1);
        for (std::uint64_t owner = 0; owner < ranks; ++owner)
            across +=
                first + owner * of_group / ranks == owner && !run.owners_in_turn ? 0 : of_owners[owner];
        first += of_group;
    }
    return {bytes_of_a_payload(run) * inside + 4 * across, bytes_of_a_mean(run) * (inside + across),
            run.owners_in_turn ? 4 * k : 0};
}

std::vector<std::uint64_t> selected_of_owners(const Scenario& scenario, const ObservedState& view) {
    std::vector<std::uint64_t> counts;
    for (const problem::Range& range : scenario.setup.ranges) {
        counts.push_back(0);
        for (Index index = range.begin; index < range.end; ++index)
            counts.back() += selected(view.mask, index) ? 1U : 0U;
    }
    return counts;
}

void bytes_are_as_the_formula_says(Trial& trial) {
    const Case& run = trial.run();
    const RunRecording& history = trial(trial.steps());
    const Scenario& scenario = trial.runs().back().scenario;
    const auto others = static_cast<std::uint64_t>(run.workers - 1);
    const auto segments = scenario.setup.problem.segments.size();
    const std::uint64_t hops = problem::has_levels(groups_of(run)) ? 2 : 1;
    for (std::size_t step = 0; step < history.after.size(); ++step) {
        const Index t = static_cast<Index>(step) + 1;
        distributed::Bytes sent{};
        const std::vector<std::uint64_t> selected =
            selected_of_owners(scenario, history.after[step].views.front());
        // One exchange may be sent in pieces that are each worth a message.
        constexpr auto worth_a_message = problem::tunable<std::uint64_t>("worth_a_message");
        const std::uint64_t most_pieces =
            std::reduce(selected.begin(), selected.end()) / worth_a_message + 1;
        for (std::size_t rank = 0; rank < history.after[step].outcomes.size(); ++rank) {
            const Outcome& outcome = history.after[step].outcomes[rank];
            const auto exchanges = [&](Traffic kind) {
                return outcome.exchanges[static_cast<std::size_t>(kind)];
            };
            const std::string who = "step " + std::to_string(t) + ", rank " + std::to_string(rank) + ": ";
            const std::uint64_t pieces = std::max<std::size_t>(1, cut_of(run, t).size());
            trial.expect(exchanges(Traffic::payload) <= pieces * hops * most_pieces &&
                             exchanges(Traffic::moment) <= pieces * hops,
                         who + "more than one payload exchange" + (pieces > 1 ? " a bucket" : ""));
            // The first step makes S_1, too, at once; a full mask need not be sent.
            const std::uint64_t most = (t == 1 ? 2 : 1) * hops;
            const std::uint64_t least = run.workers > 1 && !is_full(scenario, t + 1) ? 1 : 0;
            trial.expect(exchanges(Traffic::mask) >= least && exchanges(Traffic::mask) <= most,
                         who + std::to_string(exchanges(Traffic::mask)) +
                             " mask exchanges; there should be " + std::to_string(least) + " to " +
                             std::to_string(most));
            trial.expect(exchanges(Traffic::gradient) == 0 && exchanges(Traffic::parameters) == 0,
                         who + "a gradient or a parameter travels");
            // With buckets there is one agreement on each, beside that on the step.
            const std::uint64_t agreements = 1 + cut_of(run, t).size();
            trial.expect(
                outcome.sent[static_cast<std::size_t>(Traffic::agreement)] <= 64 * others * agreements,
                who + "an agreement of " +
                    std::to_string(outcome.sent[static_cast<std::size_t>(Traffic::agreement)]) + " bytes");
            for (std::size_t kind = 0; kind < sent.size(); ++kind)
                sent[kind] += outcome.sent[kind];
        }
        const Formula formula = formula_of(run, selected);
        for (const auto& [kind, bytes] :
             {std::pair{Traffic::payload, formula.payload}, std::pair{Traffic::moment, formula.moment}})
            trial.expect(sent[static_cast<std::size_t>(kind)] <= bytes &&
                             sent[static_cast<std::size_t>(kind)] + formula.less >= bytes,
                         "step " + std::to_string(t) + ": all ranks together send " +
                             std::to_string(sent[static_cast<std::size_t>(kind)]) + " bytes of " +
                             std::string(distributed::name(kind)) + "; the formula says " +
                             std::to_string(bytes));
        // The size of a bitmap, in which each segment may round up to a byte.
        const std::uint64_t most = (static_cast<std::uint64_t>(run.size()) / 8 + segments +
                                    static_cast<std::uint64_t>(run.workers)) *
                                   (others + hops - 1) * (t == 1 ? 2 : 1);
        trial.expect(sent[static_cast<std::size_t>(Traffic::mask)] <= most,
                     "step " + std::to_string(t) + ": all ranks together send " +
                         std::to_string(sent[static_cast<std::size_t>(Traffic::mask)]) +
                         " bytes of masks; bitmaps would be " + std::to_string(most));
    }
}

/// Buckets whose tensors have one coordinate of another bucket between them, in another order at every
/// step.
Case buckets_with_gaps() {
    Case run;
    run.tensors = {{"a", 3, false}, {"b", 1, false}, {"c", 2, false}, {"d", 1, true}, {"e", 4, false}};
    run.workers = 2;
    run.density = 0.7;
    run.data = problem::DataClass::normal;
    run.bucket_bytes = 20;
    run.cuts = CutRule::wild;
    run.steps = 12;
    run.chosen_place = 3 * (run.workers - 1);
    return run;
}

} // namespace

std::vector<Property> traffic_properties() {
    return {{9,
             "traffic",
             "A step has one payload exchange (one a bucket) and one mask exchange, of the bytes of "
             "sections 4 and 32.",
             any_case,
             bytes_are_as_the_formula_says,
             usual_demands(
                 {"a payload of bf16", "a payload of e5m2", "a mean that is rounded", "several groups"}),
             [](const Implementation& implementation) {
                 return implementation.communicates() ? only_scape(implementation)
                                                      : std::string("it sends no messages");
             },
             [](Case&) {},
             {buckets_with_gaps()}}};
}

} // namespace truestep::properties::scape
