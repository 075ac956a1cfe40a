// Properties of Muon's update: what it makes of singular values, and that it turns with its matrix.
#include <algorithm>

#include <truestep/problem/text.hpp>
#include <truestep/reference/dense/muon.hpp>
#include <truestep/verify/decomposition.hpp>

#include "trial.hpp"

namespace truestep::properties::dense {

namespace {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::MatrixXd matrix_of(const Trial& trial, std::size_t tensor, const Floats& values) {
    const std::vector<Index>& shape = trial.scenario.problem.tensors[tensor].shape;
    return Eigen::Map<const Rows>(values.data() + trial.layout().begin(tensor), shape[0], shape[1])
        .cast<double>();
}

// 9. Muon moves a matrix by p(s) u v^T for each of its momentum's singular values s and vectors u, v.
void orthogonal(Trial& trial) {
    const std::vector<RankRecord> all = trial.completed(trial.scenario);
    const Problem& problem = trial.scenario.problem;
    Floats before = trial.scenario.start;
    for (Index step = 1; step <= trial.scenario.steps; ++step) {
        const Whole whole = trial.whole(all, step);
        for (std::size_t tensor = 0; tensor < problem.tensors.size(); ++tensor) {
            if (!is_muon(problem, tensor))
                continue;
            const std::vector<Index>& shape = problem.tensors[tensor].shape;
            const auto matrix = [&](const Floats& values) { return matrix_of(trial, tensor, values); };
            const std::size_t index = groups_of(problem)[tensor];
            const Group& group = problem.groups[index];
            const double rate = trial.scenario.rates(step)[index];
            const Eigen::MatrixXd moved =
                (matrix(before) * (1.0 - rate * group.weight_decay) - matrix(whole.w)) /
                (rate * rate_factor(group.scale, shape[0], shape[1]));
            const verify::SingularParts parts = verify::singular_parts(matrix(whole.m));
            Eigen::VectorXd values =
                parts.values / reference::dense::first_scale(group, parts.values.norm());
            for (int t = 0; t < group.iterations; ++t)
                for (double& value : values)
                    value = reference::mapl::value(reference::dense::quintic(group, t), value);
            const Eigen::MatrixXd expected = parts.u * values.asDiagonal() * parts.v.transpose();
            const double off = (moved - expected).norm();
            trial.expect(off <= 0.01 * (1.0 + expected.norm()), step,
                         "after step " + std::to_string(step) + " the matrix " +
                             problem.tensors[tensor].name + " has moved by a direction of norm " +
                             shortest(moved.norm()) + ", which lies " + shortest(off) +
                             " from that of its momentum's singular vectors");
        }
        before = whole.w;
    }
}

/// Some orthogonal matrix, no entry of which is 0 or 1.
Eigen::MatrixXd orthogonal_matrix(Index rows) {
    const Eigen::VectorXd along = Eigen::VectorXd::LinSpaced(rows, 1.0, 2.0).normalized();
    return Eigen::MatrixXd::Identity(rows, rows) - 2.0 * along * along.transpose();
}

/// Every matrix of Muon multiplied by one, and the other values as they are.
Floats turned(const Trial& trial, Floats values) {
    for (std::size_t tensor = 0; tensor < trial.scenario.problem.tensors.size(); ++tensor)
        if (is_muon(trial.scenario.problem, tensor)) {
            const Eigen::MatrixXd matrix = matrix_of(trial, tensor, values);
            Eigen::Map<Rows>(values.data() + trial.layout().begin(tensor), matrix.rows(), matrix.cols()) =
                (orthogonal_matrix(matrix.rows()) * matrix).cast<float>();
        }
    return values;
}

// 9. A run from turned matrices with turned gradients is the turned run.
void turning(Trial& trial) {
    Scenario other = trial.scenario;
    other.start = turned(trial, other.start);
    other.gradient = [&](const Problem& problem, Index micro_batch, Index step) {
        return turned(trial, trial.scenario.gradient(problem, micro_batch, step));
    };
    const std::vector<RankRecord> all = trial.completed(trial.scenario);
    const std::vector<RankRecord> others = trial.completed(other);
    const Problem& problem = trial.scenario.problem;
    double moved = 0.0; // by all steps so far, at the rates that matrices have
    for (Index step = 1; step <= trial.scenario.steps; ++step) {
        const Floats& here = all[0].steps.at(step).parameters;
        const Floats& there = others[0].steps.at(step).parameters;
        moved += trial.scenario.rates(step).front();
        for (std::size_t tensor = 0; tensor < problem.tensors.size(); ++tensor) {
            if (!is_muon(problem, tensor))
                continue;
            const Eigen::MatrixXd expected = matrix_of(trial, tensor, turned(trial, here));
            const std::vector<Index>& shape = problem.tensors[tensor].shape;
            const double factor = rate_factor(problem.groups.front().scale, shape[0], shape[1]);
            const double off = (expected - matrix_of(trial, tensor, there)).norm();
            trial.expect(off <= 0.01 * moved * factor + 1e-5 * expected.norm(), step,
                         "after step " + std::to_string(step) + " the matrix " +
                             problem.tensors[tensor].name + " of a run that was turned lies " +
                             shortest(off) + " from this run's turned matrix");
        }
    }
}

Case with_muon(Case run) {
    run = by_hand(run, Rule::muon);
    run.tensors.front() = {run.tensors.front().name, {2 + run.seed % 3, 2 + run.seed % 2}, "matrix"};
    run.nesterov = 0;
    run.iteration = Iteration::fp32;
    run.lr = 0.5;
    return run;
}

} // namespace

std::vector<gate::Property> muon_properties() {
    return {property(9, "orthogonal",
                     "Muon's direction is the polynomial of its momentum's singular values.", orthogonal,
                     {{"muon", 90}, "several steps"}, with_muon),
            property(9, "turned", "Muon's update turns with its matrix.", turning,
                     {{"muon", 90}, "several steps"}, with_muon)};
}

} // namespace truestep::properties::dense
