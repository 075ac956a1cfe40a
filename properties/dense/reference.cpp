// The comparison with the reference: every bit of the elementwise rules, or their bounds at REL, and bounds
// by matrix for Muon.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include <truestep/gate/edges.hpp>
#include <truestep/reference/dense/reference.hpp>
#include <truestep/verify/bounded.hpp>
#include <truestep/verify/compare_with_reference.hpp>
#include <truestep/verify/dense/judgement.hpp>

#include "trial.hpp"

namespace truestep::properties::dense {

namespace {

namespace right = reference::dense;

template <class T>
right::Gradients<T> gradients_of(const Scenario& scenario, Index step) {
    const Problem& problem = scenario.at(step);
    right::Gradients<T> all;
    for (int rank = 0; rank < problem.ranks; ++rank) {
        all.emplace_back();
        const Index begin = first_micro_batch(problem, rank);
        for (Index i = 0; i < problem.micro_batches[static_cast<std::size_t>(rank)]; ++i)
            all.back().push_back(verify::to_vector<T>(scenario.gradient(problem, begin + i, step)));
    }
    return all;
}

Floats floats(const reference::Vector<float>& values) {
    return {values.begin(), values.end()};
}

/// Whether a matrix of Muon is near enough to the reference's: the limits are those of its directions
/// (section 38), beside twice the roundings of the update. `off` is how far U may be from the one here, and
/// `before` the recorded state that both begin with.
bool is_near(const Group& group, double rate, const right::Matrix<double>& u, double off,
             const right::Matrix<double>& before, const right::Matrix<double>& after) {
    const double factor = rate * rate_factor(group.scale, u.rows(), u.cols());
    const auto by = static_cast<double>(static_cast<float>(factor));
    const auto decay = static_cast<double>(static_cast<float>(1.0 - rate * group.weight_decay));
    const auto judgement = verify::dense::judge(group, u, off);
    const right::Matrix<double> w = before * decay;
    const right::Matrix<double> difference = after - w + judgement.O * by;
    const double roundings = w.norm() + 2.0 * by * judgement.O.norm() + after.norm();
    return judgement.greatest(difference, by, 0x1p-22 * roundings + 0x1p-140).ok();
}

/// The recorded parameters of Muon where they are near enough, and the reference's elsewhere.
template <class T>
verify::Values<T> accepted(const right::Reference<T>& reference, const std::vector<double>& rates,
                           const verify::Values<T>& ghat, const verify::Values<T>& before,
                           const verify::Values<T>& seen) {
    const Problem& problem = reference.problem();
    const problem::Layout& layout = reference.layout();
    verify::Values<T> result = reference.state.w;
    for (std::size_t tensor = 0; tensor < problem.tensors.size(); ++tensor) {
        if (!is_muon(problem, tensor))
            continue;
        const std::size_t index = groups_of(problem)[tensor];
        const Group& group = problem.groups[index];
        const std::vector<Index>& shape = problem.tensors[tensor].shape;
        const Index begin = layout.begin(tensor);
        const Index size = layout.end(tensor) - begin;
        const auto matrix = [&](const verify::Values<T>& values) -> right::Matrix<double> {
            return Eigen::Map<const right::Matrix<double>>(verify::centres_of(values).data(), shape[0],
                                                           shape[1]);
        };
        verify::Values<T> u = reference.state.m.segment(begin, size);
        if (group.nesterov)
            u = (u * T(group.momentum)) + (ghat.segment(begin, size) * T(1.0 - group.momentum));
        double off = 0.0;
        for (const double limit : verify::limits_of(u))
            off = std::hypot(off, limit);
        if (is_near(group, rates[index], matrix(u), off, matrix(before.segment(begin, size)),
                    matrix(seen.segment(begin, size))))
            result.segment(begin, size) = seen.segment(begin, size);
    }
    return result;
}

/// Compares one step from the recorded state before it. False where the run rightly ends.
template <class T>
bool compare_step(Trial& trial, right::Reference<T>& reference, const std::vector<RankRecord>& records,
                  Index step) {
    using Vector = verify::Values<T>;
    const Problem& problem = reference.problem();
    const std::vector<double> rates = trial.scenario.rates(step);
    bool refused = false;
    bool halted = false;
    const Vector before = reference.state.w;
    Vector ghat;
    try {
        ghat = reference.step(gradients_of<T>(trial.scenario, step), rates).ghat;
    } catch (const reference::scape::RefusedStep&) {
        refused = true;
    } catch (const reference::scape::Halted&) {
        halted = true;
    }
    if constexpr (!std::is_same_v<T, float>)
        for (const Vector* made : {&reference.state.w, &reference.state.m})
            for (const double centre : verify::centres_of(*made))
                halted = halted || !std::isfinite(static_cast<float>(centre)); // as fp32 overflows
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
    const VisibleState visible = trial.visible();
    const Whole seen = trial.whole(records, step);
    const Vector masters = verify::to_vector<T>(seen.w);
    const Vector near = refused ? reference.state.w : accepted(reference, rates, ghat, before, masters);
    // Where several ranks have a coordinate, each of them is compared.
    for (int rank = -1; rank < (seen.is_shared() ? problem.ranks : 0); ++rank) {
        const Whole of = rank < 0 ? seen
                                  : whole_of({records[static_cast<std::size_t>(rank)]}, step, false,
                                             trial.scenario.start.size());
        const std::string whose = rank < 0 ? "" : " of rank " + std::to_string(rank);
        const auto same = [&](const Vector& expected, const Floats& actual, const std::string& what) {
            return trial.same(verify::compare_with(expected, actual), step, what + whose,
                              "the reference's");
        };
        trial.expect(of.steps == reference.state.step, step,
                     std::to_string(of.steps) + " steps are counted" + whose + "; the reference's are " +
                         std::to_string(reference.state.step));
        // In the order of the phases.
        if ((visible.first_moment && !same(reference.state.m, of.m, "the first moments")) ||
            (visible.second_moment && !same(reference.state.v, of.v, "the second moments")) ||
            !same(near, of.w, "the masters"))
            return false;
    }
    // What the model sees are the masters or their copies, on every rank.
    const Floats shown = problem.copies == Copies::bf16
                             ? floats(right::copies_of(verify::to_vector<float>(seen.w)))
                             : seen.w;
    for (int rank = 0; rank < problem.ranks; ++rank)
        trial.same(shown, records[static_cast<std::size_t>(rank)].steps.at(step).parameters, step,
                   "the parameters of rank " + std::to_string(rank), "the owners'");
    reference.state.w = masters;
    if constexpr (!std::is_same_v<T, float>) {
        reference.state.m = verify::to_vector<T>(seen.m);
        reference.state.v = verify::to_vector<T>(seen.v);
    }
    return !trial.judged.finding;
}

template <class T>
void follow(Trial& trial) {
    const Scenario& scenario = trial.scenario;
    const std::vector<RankRecord> records = trial.run(scenario);
    const auto start = verify::to_vector<T>(scenario.start);
    right::Reference<T> reference(scenario.problem, start);
    trial.same(scenario.start, trial.whole(records, 0).w, 0, "the masters", "those given");
    for (Index step = 1; step <= scenario.steps; ++step) {
        if (scenario.restart > 0 && step == scenario.restart + 1) {
            const right::State<T> state = reference.state;
            reference = right::Reference<T>(scenario.after, start);
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

void equals_the_reference(Trial& trial) {
    if (trial.is_exact())
        follow<float>(trial);
    else
        follow<verify::Bounded>(trial);
}

/// One vector or matrix of a rank at the edges of threads' units.
std::vector<gate::Line> at_the_edges(const gate::Implementation& of, const gate::Overrides& overrides) {
    std::vector<gate::Line> all;
    if (!overrides.empty())
        return all;
    gate::Covering covering;
    for (const std::int64_t size : gate::edge_sizes(problem::Dimension::share)) {
        covering.begin({{problem::Dimension::share, size}});
        Case run;
        const std::size_t turn = all.size();
        run.workers = covering.choose<Index>("workers", {2, 1});
        run.sharded = covering.choose<Index>("sharded", {1, 0});
        const Index all_values = run.sharded == 1 ? size * run.workers : size;
        const Index few = std::min<Index>(5, all_values - 1);
        run.tensors = {{"a", {all_values - few}, "vector"}, {"b", {few}, "embedding"}};
        if (few == 0)
            run.tensors.pop_back();
        run.rule = covering.choose("rule", {Rule::adamw, Rule::sgd, Rule::adam});
        run.data = covering.choose("data", {DataClass::normal, DataClass::wide, DataClass::ties,
                                            DataClass::subnormal, DataClass::sparse});
        run.order = covering.choose("order", {Order::rank, Order::tree});
        run.copies = covering.choose("copies", {Copies::none, Copies::bf16});
        run.clip = covering.choose("clip", {0.0, 0.125});
        run.decay = covering.choose("decay", {0.0, 0.01});
        run.threads = covering.choose<Index>("threads", {3, 2, 1, 4});
        run.micro = covering.choose<Index>("micro", {1, 2});
        run.steps = 2;
        run.seed = static_cast<Index>(turn + 1);
        all.push_back(spec().text(run));
    }
    // The last rank's sum is of three nodes of the tree, and between two of them one is missing.
    Case tree;
    tree.tensors = {{"a", {7}, "vector"}};
    tree.workers = 2;
    tree.micro = 16;
    tree.uneven = 3;
    tree.order = Order::tree;
    tree.data = DataClass::normal;
    all.push_back(spec().text(tree));
    // Forty tensors, of which ten are empty.
    Case many;
    many.tensors.clear();
    for (Index size = 3; size < 43; ++size)
        many.tensors.push_back({"", {size % 4}, "vector"});
    many.sharded = 0;
    many.workers = 2;
    many.data = DataClass::normal;
    all.push_back(spec().text(many));
    // Both moments become subnormal, then 0.
    Case decays;
    decays.workers = 2;
    decays.beta1 = 0.5;
    decays.beta2 = 0.5; // nearer to 1 the last digit stays
    decays.steps = 600;
    decays.data = DataClass::once;
    all.push_back(spec().text(decays));
    // One iteration more than polar_express has polynomials in its table, of what has hardly grown by then.
    Case endless;
    endless.rule = Rule::muon;
    endless.orthogonalization = Orthogonalization::polar_express;
    endless.iterations = 8;
    endless.micro = 2;
    endless.data = DataClass::zeros;
    all.push_back(spec().text(endless));
    // Second moments become infinite, and their coordinates get no update. Bounds do not follow that.
    Case infinite;
    infinite.rule = Rule::adam;
    infinite.decay = 1e20;
    infinite.data = DataClass::normal;
    infinite.steps = 3;
    infinite.restart = 1;
    if (of.level() == verify::LevelKind::exact)
        all.push_back(spec().text(infinite));
    // A matrix of Muon, as nearly square as that size can be.
    for (const std::int64_t size : gate::edge_sizes(problem::Dimension::share)) {
        Index rows = static_cast<Index>(std::sqrt(static_cast<double>(size)));
        while (size % rows != 0)
            --rows;
        if (size < 500)
            continue;
        Case run;
        const std::size_t turn = all.size();
        run.rule = Rule::muon;
        run.tensors = {
            {"a", {turn % 2 == 0 ? rows : size / rows, turn % 2 == 0 ? size / rows : rows}, "matrix"}};
        run.data = DataClass::normal;
        run.threads = 1 + static_cast<Index>(turn % 3);
        run.seed = static_cast<Index>(turn + 1);
        all.push_back(spec().text(run));
    }
    return all;
}

} // namespace

gate::Property reference_property() {
    gate::Property all =
        property(0, "reference", "Every bit is the reference's; of Muon's products each value is near.",
                 equals_the_reference, {{"several ranks", 40}, "muon", "tree", {"restart", 15}, "refused"});
    all.also = at_the_edges;
    return all;
}

} // namespace truestep::properties::dense
