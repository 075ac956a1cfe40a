// What must always hold of MAPL: section 27. A file for each family of them.
#include <algorithm>
#include <utility>

#include "family.hpp"

namespace truestep::mapl {

Case as_drawn(Case run) {
    return run;
}

Case nothing_lost(Case run) {
    run.payload = Payload::fp32;
    run.codewords = 0;
    run.groups = run.rounds = run.subsets = 1;
    return run;
}

Case without(Case run, const gate::LeftOut& left_out) {
    if (left_out.contains("trainer")) {
        run.replicas = 1;
        run.trainer = Trainer::none;
    }
    if (left_out.contains("payload"))
        run.payload = Payload::fp32;
    if (left_out.contains("codewords")) {
        run.codewords = 0;
        run.groups = run.rounds = run.subsets = 1;
    }
    return run;
}

namespace {

/// Under mpirun there may be fewer ranks than replicas need.
Case as_many_as_there_are(Case run, const gate::Implementation& implementation) {
    while (run.replicas > 1 && !implementation.takes(run.ranks()))
        --run.replicas;
    return run;
}

} // namespace

gate::Property property(int number, const std::string& name, const std::string& says, Judge judge,
                        AtLeast at_least, Change change_it, Replicas replicas) {
    const auto change = [change_it, replicas](Case run) {
        if (replicas == Replicas::one) {
            run.replicas = 1;
            run.trainer = Trainer::none;
        }
        return change_it(run);
    };
    return {number,
            name,
            says,
            [change] { return rc::gen::map(rc::gen::map(any_case(), change), text); },
            [judge, change](const gate::Implementation& implementation, const gate::Line& line) {
                Trial trial(implementation, as_many_as_there_are(change(parse_case(line)), implementation));
                judge(trial);
                return trial.judged;
            },
            std::move(at_least),
            [](const gate::Implementation&) { return std::string(); },
            [change](const gate::Line& line, const gate::LeftOut& left_out) {
                return text(change(without(parse_case(line), left_out)));
            }};
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

} // namespace truestep::mapl
