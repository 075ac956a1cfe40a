// Registers MAPL with the gate.
#include <truestep/distributed/mapl/products.hpp>
#include <truestep/gate/system.hpp>
#include <truestep/verify/mapl/traces.hpp>

#include "case.hpp"
#include "devices.hpp"
#include "family.hpp"
#include "implementation.hpp"
#include "planted/diagnosis.hpp"
#include "planted/planted.hpp"
#include "program.hpp"

namespace truestep::properties::mapl {

namespace {

/// Larger cases, tried in each row beside the drawn ones.
std::vector<gate::Line> standing_of_mapl(const gate::Implementation& /*of*/,
                                         const gate::Overrides& overrides) {
    if (!overrides.empty())
        return {};
    return {
        "rank=16,width=48,workers=4,tokens=40,vocabulary=257,micro=6,steps=3,anchors=two,"
        "schedule=1f1b,data=normal",
        "rank=40,width=128,workers=2,tokens=100,vocabulary=50,micro=2,steps=2,anchors=shared,data=normal",
        "rank=24,width=40,workers=3,tokens=70,vocabulary=50,micro=5,steps=2,codewords=96,groups=4,rounds=2,"
        "subsets=4,data=normal"};
}

} // namespace

gate::System mapl_system();

gate::System mapl_system() {
    // Set before any process is made for cases. Set in each of them, it would start OpenBLAS's threads
    // there, which look for work for a while.
    distributed::mapl::one_thread_unless_asked();
    gate::System system;
    system.name = "mapl";
    system.says = "MAPL: stages of a pipeline send activations and gradients in a learned subspace.";
    system.fewest_workers = 2; // the two ends of a boundary
    mapl::spec().describe(system);
    system.properties = mapl::properties();
    for (gate::Property& property : system.properties)
        if (property.name == "reference")
            property.also = standing_of_mapl;
    system.implementations = [](const std::shared_ptr<const gate::Group>& group) {
        gate::Implementations all{
            std::make_shared<mapl::GroupImplementation>("host", mapl::host_ends(), group)};
        for (const auto& implementation : mapl::on_devices(group))
            all.push_back(implementation);
        all.push_back(mapl::planted(0, group));
        return all;
    };
    system.program = mapl::program_candidate;
    system.known_bugs = mapl::known_bugs();
    system.planted = mapl::planted;
    system.clean = {"host"};
    system.traces = verify::mapl::traces();
    system.what_fits = mapl::what_fits;
    return system;
}

} // namespace truestep::properties::mapl
