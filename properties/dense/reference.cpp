// The comparison with the reference: every bit of the elementwise rules, and bounds by matrix for Muon.
#include <algorithm>

#include <truestep/reference/dense/reference.hpp>
#include <truestep/verify/dense/judgement.hpp>

#include "trial.hpp"

namespace truestep::properties::dense {

namespace {

namespace right = reference::dense;

right::Gradients<float> gradients_of(const Scenario& scenario, Index step) {
    const Problem& problem = scenario.at(step);
    right::Gradients<float> all;
    for (int rank = 0; rank < problem.ranks; ++rank) {
        all.emplace_back();
        const Index begin = first_micro_batch(problem, rank);
        for (Index i = 0; i < problem.micro_batches[static_cast<std::size_t>(rank)]; ++i) {
            const Floats gradient = scenario.gradient(problem, begin + i, step);
            all.back().push_back(Eigen::Map<const reference::Vector<float>>(
                gradient.data(), static_cast<Index>(gradient.size())));
        }
    }
    return all;
}

Floats floats(const reference::Vector<float>& values) {
    return {values.begin(), values.end()};
}

/// Whether a matrix of Muon is near enough to the reference's: the limits are those of its directions
/// (section 38), beside twice the roundings of the update. `before` is the recorded state that both begin
/// with.
bool is_near(const Group& group, double rate, const right::Matrix<float>& u,
             const right::Matrix<float>& before, const right::Matrix<float>& after) {
    const double factor = rate * rate_factor(group.scale, u.rows(), u.cols());
    const auto by = static_cast<double>(static_cast<float>(factor));
    const auto decay = static_cast<double>(static_cast<float>(1.0 - rate * group.weight_decay));
    const auto judgement = verify::dense::judge(group, u.cast<double>());
    const right::Matrix<double> w = before.cast<double>() * decay;
    const right::Matrix<double> off = after.cast<double>() - w + judgement.O * by;
    const double roundings = w.norm() + 2.0 * by * judgement.O.norm() + after.cast<double>().norm();
    return judgement.greatest(off, by, 0x1p-22 * roundings + 0x1p-140).ok();
}

/// The recorded parameters of Muon where they are near enough, and the reference's elsewhere.
Floats accepted(const right::Reference<float>& reference, const std::vector<double>& rates,
                const Floats& ghat, const Floats& before, const Floats& seen) {
    const Problem& problem = reference.problem();
    const problem::Layout& layout = reference.layout();
    Floats result = floats(reference.state.w);
    for (std::size_t tensor = 0; tensor < problem.tensors.size(); ++tensor) {
        if (!is_muon(problem, tensor))
            continue;
        const std::size_t index = groups_of(problem)[tensor];
        const Group& group = problem.groups[index];
        const std::vector<Index>& shape = problem.tensors[tensor].shape;
        const Index begin = layout.begin(tensor);
        const auto matrix = [&](const float* values) -> right::Matrix<float> {
            return Eigen::Map<const right::Matrix<float>>(values + begin, shape[0], shape[1]);
        };
        const auto mu = static_cast<float>(group.momentum);
        right::Matrix<float> u = matrix(reference.state.m.data());
        if (group.nesterov)
            u = (u * mu) + (matrix(ghat.data()) * static_cast<float>(1.0 - group.momentum));
        if (is_near(group, rates[index], u, matrix(before.data()), matrix(seen.data())))
            std::copy(seen.begin() + begin, seen.begin() + layout.end(tensor), result.begin() + begin);
    }
    return result;
}

/// Compares one step from the recorded state before it. False where the run rightly ends.
bool compare_step(Trial& trial, right::Reference<float>& reference, const std::vector<RankRecord>& records,
                  Index step) {
    const Problem& problem = reference.problem();
    const std::vector<double> rates = trial.scenario.rates(step);
    bool refused = false;
    bool halted = false;
    const Floats before = floats(reference.state.w);
    Floats ghat;
    try {
        ghat = floats(reference.step(gradients_of(trial.scenario, step), rates).ghat);
    } catch (const reference::scape::RefusedStep&) {
        refused = true;
    } catch (const reference::scape::Halted&) {
        halted = true;
    }
    trial.kind(halted, "halted");
    for (int rank = 0; rank < problem.ranks; ++rank) {
        const RankRecord& record = records[static_cast<std::size_t>(rank)];
        const std::string who = "rank " + std::to_string(rank);
        const auto found = record.steps.find(step);
        if (halted) {
            trial.expect(record.halted == 1, step, who + " continues with a state that is not finite");
            continue;
        }
        if (found == record.steps.end()) {
            trial.expect(false, step,
                         who + " did not end step " + std::to_string(step) + ": " + record.ended);
            return false;
        }
        trial.expect((found->second.refused == 1) == refused, step,
                     who +
                         (refused ? " took a step with a gradient that is not finite" : " refused a step"));
    }
    if (halted || trial.judged.finding)
        return false;
    const Whole seen = trial.whole(records, step);
    const Whole expected{reference.state.step,
                         floats(reference.state.w),
                         floats(reference.state.m),
                         floats(reference.state.v),
                         {}};
    Whole near = expected;
    if (!refused)
        near.w = accepted(reference, rates, ghat, before, seen.w);
    trial.same(near, seen, step, "the reference's");
    // What the model sees are the masters or their copies, on every rank.
    const reference::Vector<float> masters =
        Eigen::Map<const reference::Vector<float>>(seen.w.data(), static_cast<Index>(seen.w.size()));
    const Floats shown = floats(problem.copies == Copies::bf16 ? right::copies_of(masters) : masters);
    for (int rank = 0; rank < problem.ranks; ++rank)
        trial.same(shown, records[static_cast<std::size_t>(rank)].steps.at(step).parameters, step,
                   "the parameters of rank " + std::to_string(rank), "the owners'");
    reference.state.w = masters;
    return !trial.judged.finding;
}

void equals_the_reference(Trial& trial) {
    const Scenario& scenario = trial.scenario;
    const std::vector<RankRecord> records = trial.run(scenario);
    const auto start = Eigen::Map<const reference::Vector<float>>(
        scenario.start.data(), static_cast<Index>(scenario.start.size()));
    right::Reference<float> reference(scenario.problem, start);
    trial.same(scenario.start, trial.whole(records, 0).w, 0, "the masters", "those given");
    for (Index step = 1; step <= scenario.steps; ++step) {
        if (scenario.restart > 0 && step == scenario.restart + 1) {
            const right::State<float> state = reference.state;
            reference = right::Reference<float>(scenario.after, start);
            reference.state = state;
            for (int rank = 0; rank < scenario.after.ranks; ++rank)
                trial.expect(records[static_cast<std::size_t>(rank)].restarted.contains(step - 1), step,
                             "rank " + std::to_string(rank) +
                                 " did not begin again: " + records[static_cast<std::size_t>(rank)].ended);
            trial.same(trial.whole(records, step - 1), trial.whole(records, step - 1, true), step - 1,
                       "those before the restart");
        }
        if (trial.judged.finding || !compare_step(trial, reference, records, step))
            return;
    }
}

} // namespace

gate::Property reference_property() {
    return property(0, "reference", "Every bit is the reference's; of Muon's products each value is near.",
                    equals_the_reference,
                    {{"several ranks", 40}, {"muon", 20}, {"tree", 30}, {"restart", 15}, {"refused", 20}});
}

} // namespace truestep::properties::dense
