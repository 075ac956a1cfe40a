// What must always hold of MAPL (section 27), one file per family.
#include "family.hpp"

namespace truestep::properties::mapl {

Case as_drawn(Case run) {
    return run;
}

Case nothing_lost(Case run) {
    return spec().without(run, {{"payload", ""}, {"codewords", ""}});
}

Case of_unequal_batches(Case run) {
    run.uneven = run.seed % 3 == 1 ? 1 : 0; // not of seed 0, to which cases shrink
    return run;
}

namespace {

/// Reduces the replicas to the available ranks: under mpirun there may be too few.
Case as_many_as_there_are(Case run, const gate::Implementation& implementation) {
    while (run.replicas > 1 && !implementation.takes(run.ranks()))
        --run.replicas;
    return run;
}

} // namespace

gate::Property property(int number, const std::string& name, const std::string& says, Judge judge,
                        const Demands& at_least, Change change_it, Replicas replicas) {
    const auto change = [change_it, replicas](Case run) {
        return change_it(replicas == Replicas::one ? spec().without(run, {{"trainer", ""}}) : run);
    };
    return spec().property(number, name, says, gate::judged_by(judge, as_many_as_there_are), at_least,
                           change);
}

std::vector<gate::Property> properties() {
    return gate::by_number({boundary_properties(), training_properties(), pipeline_properties(),
                            input_properties(), quantization_properties(), replica_properties(),
                            principal_properties(), fault_properties()});
}

} // namespace truestep::properties::mapl
