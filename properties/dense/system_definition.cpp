// Registers dense training with the gate: docs/adding-a-system.md.
#include <truestep/gate/system.hpp>

#include <truestep/verify/dense/traces.hpp>

#include "devices.hpp"
#include "planted/planted.hpp"
#include "program.hpp"
#include "trial.hpp"

namespace truestep::properties::dense {

gate::System dense_system();

gate::System dense_system() {
    gate::System system;
    system.name = "dense";
    system.says = "SGD, Adam, AdamW and Muon under data parallelism.";
    spec().describe(system);
    system.extents = [](const gate::Line& line) {
        const Case run = spec().parse(line);
        const Index size = layout_of(problem_of(run, run.workers)).size();
        return gate::Extents{
            {problem::Dimension::model, size},
            {problem::Dimension::share, run.sharded == 1 ? (size + run.workers - 1) / run.workers : size}};
    };
    system.set_at_edges = {"rule",    "order", "copies",  "clip",   "decay",
                           "threads", "micro", "sharded", "workers"};
    for (const auto& family : {sharding_properties, rule_properties, muon_properties, setting_properties,
                               interruption_properties})
        for (gate::Property& property : family())
            system.properties.push_back(std::move(property));
    system.properties.push_back(reference_property());
    system.implementations = [](const std::shared_ptr<const gate::Group>& group) {
        gate::Implementations all{std::make_shared<GroupImplementation>(
            "host",
            workers([](int, int threads) { return distributed::dense::make_host_backend(threads); }),
            group)};
        for (const auto& implementation : on_devices(group))
            all.push_back(implementation);
        all.push_back(planted(0, group));
        return all;
    };
    system.program = program_implementation;
    system.known_bugs = known_bugs();
    system.planted = planted;
    system.clean = {"host"};
    system.traces = verify::dense::traces();
    system.what_fits = what_fits;
    return system;
}

} // namespace truestep::properties::dense
