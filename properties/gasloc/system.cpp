// GASLoC's properties as a gate::System, for any implementations.
#include <utility>

#include <truestep/gate/gate_main.hpp>
#include <truestep/gate/system.hpp>
#include <truestep/verify/gasloc/traces.hpp>

#include "implementation.hpp"
#include "parts.hpp"

namespace truestep::properties::gasloc {

gate::System system_of_properties() {
    gate::System system;
    system.name = "gasloc";
    system.says = "GASLoC: local steps, then accelerated gossip with the neighbours of the round.";
    spec().describe(system);
    system.extents = [](const gate::Line& line) {
        return gate::Extents{{problem::Dimension::model, spec().parse(line).size}};
    };
    system.set_at_edges = {"inner", "momentum", "threads", "skip", "late", "decay", "steps"};
    system.properties = properties();
    system.traces = verify::gasloc::traces();
    system.program = program_candidate;
    system.learning = learning();
    return system;
}

gate::System system_with(std::vector<ImplementationSpec> candidates) {
    gate::System system = system_of_properties();
    system.implementations = [candidates =
                                  std::move(candidates)](const std::shared_ptr<const gate::Group>& group) {
        gate::Implementations all;
        for (const ImplementationSpec& candidate : candidates) {
            gate::Placement seat{
                .level = candidate.level, .unsupported = candidate.unsupported, .names_differences = false};
            if (!candidate.restart)
                seat.unsupported.try_emplace("restart", "it has no checkpoints");
            if (!candidate.restores)
                seat.unsupported.try_emplace("restore", "its workers restore when they begin alone");
            all.push_back(std::make_shared<Workers>(
                candidate.name, RankFactory{candidate.start, candidate.restart, train}, group, seat));
        }
        return all;
    };
    return system;
}

int gate_main(int count, char** values, std::vector<ImplementationSpec> candidates) {
    return gate::gate_main(count, values, {system_with(std::move(candidates))});
}

} // namespace truestep::properties::gasloc
