// Registers SCAPE with all of this build's implementations and known bugs.
#include <truestep/properties/scape/planted/bugs.hpp>
#include <truestep/properties/scape/planted/bugs_between_steps.hpp>
#include <truestep/properties/scape/planted/diagnosis.hpp>
#include <truestep/properties/scape/planted/implementation.hpp>
#include <truestep/properties/scape/system.hpp>
#include <truestep/verify/scape/traces.hpp>

namespace truestep::properties::scape {

gate::System scape_system();

gate::System scape_system() {
    gate::System system = system_of_properties();
    system.implementations = [](const std::shared_ptr<const gate::Group>& group) {
        gate::Implementations all;
        for (const auto& implementation : all_implementations(group))
            all.push_back(implementation);
        all.push_back(planted::implementation(0, group));
        return all;
    };
    for (const planted::Description& bug : planted::bugs())
        system.known_bugs.push_back({bug.number, bug.name, bug.shows});
    system.planted = [](int number, const std::shared_ptr<const gate::Group>& group) {
        return planted::implementation(number, group);
    };
    system.clean = {"host"};
    system.learning.value().beside = [](const std::shared_ptr<const gate::Group>& group) {
        std::vector<gate::Learning::BugOutsideStep> all;
        for (const planted::BugBetweenSteps& one : planted::bugs_between_steps())
            all.push_back({one.words, planted::with_bug_between_steps(one, group)});
        return all;
    };
    system.traces = verify::scape::scape_traces();
    system.what_fits = planted::what_fits;
    return system;
}

} // namespace truestep::properties::scape
