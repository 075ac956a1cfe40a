// What must always hold of GASLoC (section 17), one file per family.
#include "family.hpp"
#include "parts.hpp"

namespace truestep::properties::gasloc {

Case as_it_is(Case run) {
    return run;
}

Case exact_local(Case run) {
    run = exact(run);
    run.momentum = Momentum::local;
    return run;
}

Case without_restart(Case run) {
    run.restart = 0;
    run.to = 0;
    return run;
}

Demands meets() {
    return {"neighbours", "several neighbours", "momentum"};
}

gate::Property property(int number, const std::string& name, const std::string& says, Judge judge,
                        const Demands& at_least, Change change, Change at_rel) {
    return spec().property(number, name, says,
                           gate::judged_by(judge,
                                           [at_rel](const Case& run, const gate::Implementation& of) {
                                               return of.level() == verify::LevelKind::exact ? run
                                                                                             : at_rel(run);
                                           }),
                           at_least, change);
}

std::vector<gate::Property> properties() {
    return gate::by_number({gossip_properties(), diloco_properties(), neighbour_properties(),
                            delay_properties(), interruption_properties(), setting_properties(),
                            reference_properties()});
}

} // namespace truestep::properties::gasloc
