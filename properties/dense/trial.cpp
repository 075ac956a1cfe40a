// Puts one case to an implementation of dense training, and phrases what differs.
#include "trial.hpp"

#include <algorithm>
#include <utility>

namespace truestep::properties::dense {

namespace {

std::string after(Index step) {
    return step == 0 ? "at the start" : "after step " + std::to_string(step);
}

void classify(Trial& trial) {
    const Case& run = trial.run_case;
    const Problem& problem = trial.scenario.problem;
    bool muon = false;
    bool elementwise = false;
    bool momentum = false;
    for (const Group& group : problem.groups) {
        muon = muon || group.rule == Rule::muon;
        elementwise = elementwise || group.rule != Rule::muon;
        momentum = momentum || has_first_moment(group);
    }
    trial.kind(run.workers > trial.layout().size(), "more ranks than parameters");
    trial.kind(problem.groups.size() > 1, "several groups");
    trial.kind(muon, "muon");
    trial.kind(elementwise, "not only Muon");
    trial.kind(momentum, "momentum");
}

} // namespace

gate::Finding::Size Trial::size(Index step) const {
    return {layout().size(), static_cast<int>(run_case.workers), std::max(step, run_case.steps)};
}

bool is_muon(const Problem& problem, std::size_t tensor) {
    return problem.groups[groups_of(problem)[tensor]].rule == Rule::muon;
}

Floats part_of(const Problem& problem, std::size_t tensor, const Floats& whole) {
    const problem::Layout layout = layout_of(problem);
    return {whole.begin() + layout.begin(tensor), whole.begin() + layout.end(tensor)};
}

gate::Property property(int number, const std::string& name, const std::string& says, Judge judge,
                        const gate::Demands<Case>& at_least, const std::function<Case(Case)>& change) {
    return spec().property(number, name, says, gate::judged_by(judge), at_least, change);
}

Case uninterrupted(Case run) {
    run.restart = 0;
    run.to = 0;
    run.refused = 0;
    return run;
}

Case by_hand(Case run, Rule rule) {
    run = uninterrupted(run);
    run.rule = rule;
    run.groups = Dealing::one;
    run.clip = 0.0;
    run.copies = Copies::none;
    run.order = Order::rank;
    run.data = run.data == DataClass::dyadic ? DataClass::dyadic : DataClass::normal;
    return run;
}

Case with_several_ranks(Case run) {
    run.workers = std::max<Index>(2, run.workers);
    return uninterrupted(run);
}

Trial::Trial(const gate::Implementation& implementation, const Case& judged_case)
    : TrialOf(judged_case, layout_of(problem_of(judged_case, judged_case.workers)).tensors()),
      scenario(scenario_of(judged_case)), candidate_(dynamic_cast<const Implementation&>(implementation)) {
    classify(*this);
}

std::vector<RankRecord> Trial::completed(const Scenario& of, bool may_halt) {
    std::vector<RankRecord> all = run(of);
    for (Index step = 1; step <= of.steps; ++step)
        for (int rank = 0; rank < of.at(step).ranks; ++rank) {
            const RankRecord& record = all[static_cast<std::size_t>(rank)];
            if (record.steps.contains(step))
                continue;
            // The reference halts, too, or that is another property's subject.
            if (may_halt && record.halted == 1)
                kind(true, "halted");
            else
                expect(false, step,
                       "rank " + std::to_string(rank) + " did not end step " + std::to_string(step) + ": " +
                           (record.ended.empty() ? "no reason is known" : record.ended));
            throw gate::Ended();
        }
    return all;
}

bool Trial::same(const verify::Comparison& compared, Index step, const std::string& what,
                 const std::string& whose) {
    return TrialOf::same(compared, step, after(step) + " " + what + " are not " + whose);
}

bool Trial::same(const Floats& expected, const Floats& actual, Index step, const std::string& what,
                 const std::string& whose) {
    return same(verify::compare(expected, actual, verify::Level::exact()), step, what, whose);
}

bool Trial::same(const Whole& expected, const Whole& actual, Index step, const std::string& whose) {
    expect(expected.steps == actual.steps, step,
           after(step) + " " + std::to_string(actual.steps) + " steps are counted; " + whose + " are " +
               std::to_string(expected.steps));
    return same(expected.w, actual.w, step, "the masters", whose) &&
           same(expected.m, actual.m, step, "the first moments", whose) &&
           same(expected.v, actual.v, step, "the second moments", whose);
}

void Trial::same(const std::vector<RankRecord>& expected, const std::vector<RankRecord>& actual,
                 const std::string& whose) {
    for (Index step = 1; step <= scenario.steps; ++step) {
        const auto& right = expected.front().steps.at(step).parameters;
        for (std::size_t rank = 0; rank < actual.size(); ++rank)
            if (const auto found = actual[rank].steps.find(step); found != actual[rank].steps.end())
                same(right, found->second.parameters, step,
                     "the parameters of rank " + std::to_string(rank), whose);
        same(whole(expected, step), whole(actual, step), step, whose);
    }
}

Whole whole_of(const std::vector<RankRecord>& records, Index step, bool restarted, std::size_t size) {
    Whole whole{0, Floats(size), Floats(size), Floats(size), std::vector<int>(size, 0)};
    for (const RankRecord& record : records) {
        const auto& steps = restarted ? record.restarted : record.steps;
        const auto found = steps.find(step);
        if (found == steps.end())
            continue;
        const Shard& shard = found->second.shard;
        whole.steps = std::max(whole.steps, shard.steps);
        std::size_t packed = 0;
        for (const auto& [begin, end] : shard.pieces)
            for (auto i = static_cast<std::size_t>(begin);
                 i < std::min(size, static_cast<std::size_t>(end)); ++i, ++packed) {
                ++whole.owners[i];
                for (const auto& [from, to] :
                     {std::pair{&shard.w, &whole.w}, {&shard.m, &whole.m}, {&shard.v, &whole.v}})
                    if (packed < from->size())
                        (*to)[i] = (*from)[packed];
            }
    }
    return whole;
}

} // namespace truestep::properties::dense
