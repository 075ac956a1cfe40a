// Registers files and folders with the gate.
#include <truestep/gate/system.hpp>

#include "storage.hpp"

namespace truestep::properties::storage {

gate::System storage_system();

gate::System storage_system() {
    gate::System system;
    system.name = "storage";
    system.says =
        "Saved files are read back, damaged ones are refused, links stay, crashes leave whole files.";
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

} // namespace truestep::properties::storage
