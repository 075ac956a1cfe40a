// Registers exchanges between ranks with the gate.
#include <truestep/gate/system.hpp>

#include "exchange.hpp"

namespace truestep::properties::exchange {

gate::System exchange_system();

gate::System exchange_system() {
    gate::System system;
    system.name = "exchange";
    system.says =
        "What ranks send each other arrives, over threads or MPI, and a rank that fails is named.";
    spec().describe(system);
    system.properties = properties();
    system.implementations = [](const std::shared_ptr<const gate::Group>& group) {
        return gate::Implementations{std::make_shared<Implementation>("host", 0, group)};
    };
    system.known_bugs = known_bugs();
    system.planted = [](int number, const std::shared_ptr<const gate::Group>& group) {
        return std::make_shared<Implementation>(gate::name_of_planted(number, known_bugs().size()), number,
                                                group);
    };
    system.clean = {"host"};
    return system;
}

} // namespace truestep::properties::exchange
