// Registers GASLoC with the tool, with this tree's implementations and the known bugs.
#include "devices.hpp"
#include "parts.hpp"
#include "planted/planted.hpp"
#include "workers.hpp"

namespace truestep::properties::gasloc {

gate::System gasloc_system();

gate::System gasloc_system() {
    gate::System system = gasloc::system_of_properties();
    system.implementations = [](const std::shared_ptr<const gate::Group>& group) {
        gate::Implementations all{std::make_shared<gasloc::Workers>("host", gasloc::workers(), group)};
        for (const auto& implementation : gasloc::on_devices(group))
            all.push_back(implementation);
        all.push_back(gasloc::planted(0, group));
        return all;
    };
    system.known_bugs = gasloc::known_bugs();
    system.planted = gasloc::planted;
    system.clean = {"host"};
    system.what_fits = gasloc::what_fits;
    return system;
}

} // namespace truestep::properties::gasloc
