// Properties of Muon's update: what it makes of singular values, and that it turns with its matrix.
#include <algorithm>
#include <cmath>

#include <truestep/problem/text.hpp>
#include <truestep/reference/bf16.hpp>
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

/// The scale of section 37, a second time: rate_factor() is the implementation's and the
/// reference's.
double factor_by_hand(Scale scale, const std::vector<Index>& shape) {
    const auto rows = static_cast<double>(shape[0]);
    const auto columns = static_cast<double>(shape[1]);
    if (scale == Scale::match_rms_adamw)
        return 0.2 * std::sqrt(rows > columns ? rows : columns);
    const bool none = scale == Scale::none || (scale == Scale::original && rows < columns);
    return none ? 1.0 : std::sqrt(rows / columns);
}

/// The number of bf16 that fp32 rounds a sum to, or NaN where it may be either of two; `size` is the sum of
/// its terms' magnitudes.
double kept(double sum, double size) {
    const double nearest = reference::nearest_bf16(sum);
    const double off = 0x1p-21 * size;
    return reference::nearest_bf16(sum - off) == nearest && reference::nearest_bf16(sum + off) == nearest
               ? nearest
               : std::nan("");
}

/// Iterates in bf16 an entry that is alone in its row and column: a polynomial of one number, for no sum
/// has two terms. The result is NaN if the rounding of fp32 could decide.
double iterated_alone(const Group& group, double x) {
    for (int t = 0; t < group.iterations && x != 0.0; ++t) {
        const auto [a, b, c] = reference::dense::quintic(group, t);
        const double G = kept(x * x, 0.0);
        const double B = kept((b * G) + (c * G * G), (std::abs(b) * G) + (std::abs(c) * G * G));
        x = std::abs(x) < 0x1p-40 ? std::nan("")
                                  : kept((a * x) + (B * x), std::abs(a * x) + std::abs(B * x));
    }
    return x;
}

/// Muon in bf16 rounds where section 37 rounds: checked, bit by bit, on matrices with one entry in a row.
void rounds_to_bf16(Trial& trial) {
    Scenario& scenario = trial.scenario;
    for (Group& group : scenario.problem.groups)
        group.iteration = Iteration::bf16;
    const auto is_entry = [](const std::vector<Index>& shape, Index i) {
        const Index row = i / shape[1];
        return row < shape[1] && i % shape[1] == (row + 1) % std::min(shape[0], shape[1]);
    };
    scenario.gradient = [=, layout = trial.layout(),
                         inner = scenario.gradient](const Problem& problem, Index micro_batch, Index step) {
        Floats values = inner(problem, micro_batch, step);
        for (std::size_t tensor = 0; tensor < problem.tensors.size(); ++tensor)
            for (Index i = layout.begin(tensor); is_muon(problem, tensor) && i < layout.end(tensor); ++i)
                if (!is_entry(problem.tensors[tensor].shape, i - layout.begin(tensor)))
                    values[static_cast<std::size_t>(i)] = 0.0F;
        return values;
    };
    const std::vector<RankRecord> all = trial.completed(scenario);
    Floats before = scenario.start;
    for (Index step = 1; step <= scenario.steps; ++step) {
        const Whole whole = trial.whole(all, step);
        for (std::size_t tensor = 0; tensor < scenario.problem.tensors.size(); ++tensor) {
            if (!is_muon(scenario.problem, tensor))
                continue;
            const std::vector<Index>& shape = scenario.problem.tensors[tensor].shape;
            const std::size_t index = groups_of(scenario.problem)[tensor];
            const Group& group = scenario.problem.groups[index];
            const double rate = scenario.rates(step)[index];
            const auto decay = static_cast<float>(1.0 - rate * group.weight_decay);
            const auto by = static_cast<float>(rate * factor_by_hand(group.scale, shape));
            const Eigen::MatrixXd U = matrix_of(trial, tensor, whole.m).unaryExpr(&reference::nearest_bf16);
            const double scale = reference::nearest_bf16(reference::dense::first_scale(group, U.norm()));
            for (Index i = 0; i < U.size(); ++i) {
                const auto at = static_cast<std::size_t>(trial.layout().begin(tensor) + i);
                const auto x = static_cast<float>(U(i / shape[1], i % shape[1]) / scale);
                const double made = iterated_alone(group, reference::nearest_bf16(static_cast<double>(x)));
                if (std::isnan(made))
                    continue;
                const float expected = (before[at] * decay) - (by * static_cast<float>(made));
                trial.expect(whole.w[at] == expected, step,
                             "after step " + std::to_string(step) + " in bf16 the matrix " +
                                 scenario.problem.tensors[tensor].name + " has " +
                                 verify::with_bits(whole.w[at]) + " at " + std::to_string(i) + " for " +
                                 verify::with_bits(expected));
            }
        }
        before = whole.w;
    }
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
            if (rate == 0.0) { // it says nothing of the direction
                trial.same(part_of(problem, tensor, before), part_of(problem, tensor, whole.w), step,
                           "the masters of tensor " + problem.tensors[tensor].name,
                           "those before a step of rate 0");
                continue;
            }
            const Eigen::MatrixXd moved =
                (matrix(before) * (1.0 - rate * group.weight_decay) - matrix(whole.w)) /
                (rate * factor_by_hand(group.scale, shape));
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
    if (trial.is_exact() && trial.run_case.seed % 4 == 3)
        rounds_to_bf16(trial);
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
            const double factor =
                factor_by_hand(problem.groups.front().scale, problem.tensors[tensor].shape);
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
