// SCAPE and AdamS as a gate::System.
#include <truestep/properties/scape/system.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <truestep/gate/gate_main.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/properties/scape/implementations.hpp>
#include <truestep/properties/scape/property.hpp>
#include <truestep/verify/scape/record.hpp>

#include "learning.hpp"
#include "self_test.hpp"
#include "spec.hpp"

namespace truestep::properties::scape {

namespace {

using gate::Line;
using gate::Overrides;
using gate::Unsupported;

/// Whether pins ask for another model than the one here.
bool is_another_model(const Overrides& overrides) {
    return std::ranges::any_of(std::array{"tensors", "steps", "data", "clip-norm"},
                               [&overrides](const char* option) { return overrides.contains(option); });
}

/// A model with some of everything, larger than drawn ones.
std::vector<Line> standing(const Overrides& overrides) {
    if (is_another_model(overrides))
        return {};
    Case run;
    run.tensors = {{"embed", 4500, false},
                   {"norm", 33, true},
                   {"gate", 1, false},
                   {"mlp", 901, false},
                   {"tiny", 7, false}};
    run.beta1 = 0.9;
    run.beta2 = 0.95;
    run.weight_decay = 0.1;
    run.data = problem::DataClass::normal;
    run.steps = 4;
    run = spec().pinned(run, overrides);
    run.other_workers = Case{}.other_workers; // no second run is made
    return {text(run)};
}

const Implementation& ours(const gate::Implementation& implementation) {
    return dynamic_cast<const Implementation&>(implementation);
}

Case needed(const Property& property, Case run) {
    if (run.bucket_bytes == 0)
        run.cuts = CutRule::backward;
    // An empty script still gets one step.
    if (property.name == "machine" && run.script.empty())
        run.script.push_back({});
    property.needs(run);
    return run;
}

/// How large a case is where registered constants cut. Masks of early steps show all that later ones do.
gate::Extents extents(const Line& line) {
    using problem::Dimension;
    const Case run = parse_case(line);
    const problem::Problem problem = problem_of(run);
    const problem::DensitySchedule density = schedule_of(run);
    gate::Extents all{{Dimension::model, run.size()}};
    for (Index step = 1; step <= std::min<Index>(run.steps, 3); ++step) {
        std::vector<Index> shares(static_cast<std::size_t>(run.workers), 0);
        std::vector<Index> messages = shares;
        Index selected = 0;
        for (const problem::Segment& segment : problem.segments) {
            const Index k = selected_count(segment, density.at(step), problem.settings.k_rounding);
            shares[static_cast<std::size_t>(segment.owner)] += segment.size();
            messages[static_cast<std::size_t>(segment.owner)] += k;
            selected += k;
            if (!segment.always_dense && run.workers > 1) // a rank alone writes no code for its mask
                all.insert({Dimension::segment, segment.size()});
        }
        all.insert({Dimension::selected, selected});
        for (const Index share : shares)
            all.insert({Dimension::share, share});
        for (const Index values : messages)
            if (run.workers > 1)
                all.insert({Dimension::message, values});
    }
    return all;
}

gate::Property in_the_gates_terms(const Property& property) {
    return {property.number,
            property.name,
            property.says,
            [&property](const Overrides& overrides, const Unsupported& unsupported) {
                return spec().lines(property.cases(), overrides, unsupported,
                                    [&property](Case run) { return needed(property, std::move(run)); });
            },
            [&property](const gate::Implementation& implementation, const Line& line) {
                return judged(ours(implementation), property, parse_case(line));
            },
            gate::by_name(property.at_least),
            [&property](const gate::Implementation& implementation) {
                return property.skipped(ours(implementation));
            },
            [&property](const Line& line, const Unsupported& unsupported) {
                return text(needed(property, spec().without(parse_case(line), unsupported)));
            },
            [&property](const gate::Implementation& implementation, const Overrides& overrides) {
                std::vector<Line> lines;
                if (is_another_model(overrides))
                    return lines;
                // Many steps show nothing more on other ranks, and take seconds if each is sent to
                // processes.
                constexpr Index many = 1000;
                for (const Case& run : property.also)
                    if ((run.steps <= many || !overrides.contains("workers")) &&
                        run.size() <= ours(implementation).most_parameters())
                        lines.push_back(text(spec().pinned(run, overrides)));
                return lines;
            }};
}

} // namespace

gate::System system_of_properties() {
    gate::System system;
    system.name = "scape";
    system.says =
        "SCAPE on AdamS: a share of the coordinates per step, masks one step late, local residuals.";
    spec().describe(system);
    system.standing = standing;
    system.extents = extents;
    system.set_at_edges = {"payload", "groups",  "owners",     "norm",
                           "parts",   "buckets", "correction", "decay"};
    for (const Property& property : all_properties())
        system.properties.push_back(in_the_gates_terms(property));
    system.unseen = what_the_gate_does_not_see;
    system.program = program_implementation;
    system.learning = learning();
    return system;
}

gate::System system_with(std::vector<ImplementationSpec> candidates) {
    gate::System system = system_of_properties();
    system.implementations = [candidates =
                                  std::move(candidates)](const std::shared_ptr<const Group>& group) {
        gate::Implementations all;
        for (const ImplementationSpec& candidate : candidates)
            all.push_back(on_ranks(candidate, group));
        return all;
    };
    return system;
}

int gate_main(int count, char** values, std::vector<ImplementationSpec> candidates) {
    return gate::gate_main(count, values, {system_with(std::move(candidates))});
}

} // namespace truestep::properties::scape
