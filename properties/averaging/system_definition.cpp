// Registers local SGD with averaging with the gate: docs/adding-a-system.md.
#include <truestep/gate/system.hpp>

#include "implementation.hpp"
#include "planted/planted.hpp"
#include "properties.hpp"

namespace truestep::properties::averaging {

gate::System averaging_system();

gate::System averaging_system() {
    gate::System system;
    system.name = "averaging";
    system.says = "Local SGD: some steps of each worker alone, then the mean of their parameters.";
    averaging::spec().describe(system);
    system.properties = averaging::properties();
    system.implementations = [](const std::shared_ptr<const gate::Group>& group) {
        return gate::Implementations{
            std::make_shared<averaging::Implementation>("host", averaging::play_worker, group),
            averaging::planted(0, group)};
    };
    system.known_bugs = averaging::known_bugs();
    system.planted = averaging::planted;
    system.clean = {"host"};
    return system;
}

} // namespace truestep::properties::averaging
