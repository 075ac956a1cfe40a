// What must always hold of MAPL (section 27), one file per family.
#include <algorithm>
#include <utility>

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
    return spec().property(
        number, name, says,
        [judge](const gate::Implementation& implementation, const Case& run) {
            Trial trial(implementation, as_many_as_there_are(run, implementation));
            judge(trial);
            return trial.judged;
        },
        at_least, change);
}

std::vector<gate::Property> properties() {
    std::vector<gate::Property> all;
    for (const auto& family :
         {boundary_properties(), training_properties(), pipeline_properties(), input_properties(),
          quantization_properties(), replica_properties(), principal_properties()})
        all.insert(all.end(), family.begin(), family.end());
    // The reference's number is 0, and it comes last.
    std::ranges::stable_sort(
        all, {}, [](const gate::Property& one) { return std::pair(one.number == 0, one.number); });
    return all;
}

} // namespace truestep::properties::mapl
