// Registers local SGD with averaging with the gate: docs/adding-a-system.md.
#include <truestep/distributed/averaging/worker.hpp>
#include <truestep/gate/system.hpp>

#include "averaging.hpp"

namespace truestep::properties::averaging {

namespace {

/// Plays a case on a rank of distributed/averaging.
void play(const Case& run, distributed::Communicator& ranks, gate::ShownByRank& seen) {
    distributed::averaging::Worker worker(parameters_of(run), learning_rate_of(run), ranks);
    for (Index round = 0; round < run.rounds; ++round) {
        for (const Vector& gradient : gradients_of(run, ranks.rank(), round))
            worker.step(gradient);
        worker.average();
        seen.after.push_back(worker.parameters());
    }
}

} // namespace

gate::System averaging_system();

gate::System averaging_system() {
    gate::System system;
    system.name = "averaging";
    system.says = "Local SGD: some steps of each worker alone, then the mean of their parameters.";
    spec().describe(system);
    system.properties = properties();
    const auto planted = Implementation::planted(known_bugs().size(), play_with);
    system.implementations = [planted](const std::shared_ptr<const gate::Group>& group) {
        return gate::Implementations{std::make_shared<Implementation>("host", play, group),
                                     planted(0, group)};
    };
    system.known_bugs = known_bugs();
    system.planted = planted;
    system.clean = {"host"};
    return system;
}

} // namespace truestep::properties::averaging
