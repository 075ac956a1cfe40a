// Checks the settings of dense training, and deals its tensors to groups by their roles.
#include <truestep/problem/dense/settings.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <truestep/problem/partition.hpp>
#include <truestep/problem/settings.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem::dense {

namespace {

std::string title(const Problem& problem, std::size_t group) {
    const Group& of = problem.groups[group];
    std::string roles;
    for (const std::string& role : of.roles)
        roles += (roles.empty() ? "" : ", ") + role;
    return "group " + std::to_string(group) + " (" + std::string(name(of.rule)) + ", roles " + roles + ")";
}

void check_settings(const Problem& problem, std::size_t index) {
    const Group& group = problem.groups[index];
    const auto range = [&](const char* setting, double value, const Limits& limits) {
        check_limits(title(problem, index) + ": " + setting, value, limits);
    };
    range("weight_decay", group.weight_decay, not_negative);
    constexpr double to_zero_in_bf16 = 0x1p-134; // half of its least number
    const Limits positive_in_bf16{"more than 0, as a bf16 number too, and finite", [](double value) {
                                      return value > to_zero_in_bf16 && std::isfinite(value);
                                  }};
    const bool in_bf16 = group.rule == Rule::muon && group.iteration == Iteration::bf16;
    if (group.rule != Rule::sgd)
        range("epsilon", group.epsilon, in_bf16 ? positive_in_bf16 : positive);
    if (is_adam(group.rule)) {
        range("beta1", group.beta1, below_one);
        range("beta2", group.beta2, below_one);
        return;
    }
    range("momentum", group.momentum, below_one);
    if (group.rule == Rule::sgd) {
        range("dampening", group.dampening,
              {"in [0, 1]", [](double value) { return value >= 0.0 && value <= 1.0; }});
        if (group.nesterov && (group.momentum == 0.0 || group.dampening != 0.0))
            throw Error(title(problem, index) +
                        ": nesterov needs a momentum above 0 and a dampening of 0; set these, or nesterov "
                        "to false");
        return;
    }
    range("iterations", group.iterations,
          {"from 1 to 99", [](double value) { return value >= 1 && value <= 99; }});
    for (const double coefficient : group.coefficients)
        range("coefficient", coefficient, {"finite", [](double value) { return std::isfinite(value); }});
}

/// Muon multiplies whole matrices.
void check_matrix(const Problem& problem, std::size_t group, const Tensor& tensor) {
    if (tensor.shape.size() == 2 && tensor.size() > 0)
        return;
    std::string shape;
    for (const Index extent : tensor.shape)
        shape += (shape.empty() ? "" : "x") + std::to_string(extent);
    throw Error("tensor " + one_line(tensor.name) + " has shape " + (shape.empty() ? "()" : shape) +
                ", and its role puts it into " + title(problem, group) +
                ", which takes matrices of two extents; give it another role, or its shape as a matrix");
}

void check_split(const Problem& problem) {
    const Index all = micro_batches_of(problem);
    Index begin = 0;
    for (std::size_t rank = 0; rank < problem.micro_batches.size(); ++rank) {
        const Index end = begin + problem.micro_batches[rank];
        if (problem.order == Order::tree && !is_node(begin, end, all))
            throw Error("order tree does not allow this split: rank " + std::to_string(rank) +
                        " has micro-batches " + std::to_string(begin) + " to " + std::to_string(end - 1) +
                        " of " + std::to_string(all) +
                        ", which are no node of the tree; give each rank the same power of two, or use "
                        "order rank");
        begin = end;
    }
}

} // namespace

Index Tensor::size() const {
    Index product = 1;
    for (const Index extent : shape) {
        if (extent < 0 || (extent > 0 && product > std::numeric_limits<Index>::max() / extent))
            return -1; // the layout refuses it by the tensor's name
        product *= extent;
    }
    return product;
}

Group group_of(Rule rule, std::vector<std::string> roles) {
    Group group;
    group.rule = rule;
    group.roles = std::move(roles);
    if (is_coupled(rule))
        group.weight_decay = 0.0;
    if (rule == Rule::muon) {
        group.weight_decay = 0.1;
        group.momentum = 0.95;
        group.nesterov = true;
        group.epsilon = 1e-7;
    }
    return group;
}

std::vector<std::size_t> groups_of(const Problem& problem) {
    std::vector<std::size_t> all;
    for (const Tensor& tensor : problem.tensors) {
        const std::string where = "tensor " + one_line(tensor.name);
        if (tensor.role.empty())
            throw Error(where +
                        " has no role, and a shape alone deals no tensor to a rule; give it a role");
        const auto takes = [&](const Group& group) {
            return std::ranges::find(group.roles, tensor.role) != group.roles.end();
        };
        const auto found = std::ranges::find_if(problem.groups, takes);
        if (found == problem.groups.end())
            throw Error(where + " has the role '" + one_line(tensor.role) +
                        "', which no group takes; add it to the roles of one");
        all.push_back(static_cast<std::size_t>(found - problem.groups.begin()));
    }
    return all;
}

Layout layout_of(const Problem& problem) {
    const std::vector<std::size_t> groups = groups_of(problem);
    std::vector<problem::Tensor> tensors;
    for (std::size_t i = 0; i < groups.size(); ++i)
        tensors.push_back(
            {problem.tensors[i].name, problem.tensors[i].size(), false, static_cast<Index>(groups[i])});
    return Layout(std::move(tensors));
}

void check(const Problem& problem) {
    check_workers(problem.ranks);
    check_limits("clip_norm", problem.clip_norm, norm_limits);
    if (problem.micro_batches.size() != static_cast<std::size_t>(problem.ranks))
        throw Error("micro_batches has " + std::to_string(problem.micro_batches.size()) +
                    " numbers, and there are " + std::to_string(problem.ranks) +
                    " ranks; give one number for each");
    Index all = 0;
    for (const int count : problem.micro_batches) {
        all += count;
        if (count < 1 || all > most_micro_batches)
            throw Error("micro_batches has " + std::to_string(count) +
                        "; each rank has at least 1, and all together at most " +
                        std::to_string(most_micro_batches));
    }
    check_split(problem);
    for (std::size_t group = 0; group < problem.groups.size(); ++group)
        check_settings(problem, group);
    std::vector<std::string> taken;
    for (std::size_t group = 0; group < problem.groups.size(); ++group)
        for (const std::string& role : problem.groups[group].roles) {
            if (role.empty() || std::ranges::find(taken, role) != taken.end())
                throw Error(title(problem, group) +
                            (role.empty() ? ": a role is empty; give it a name"
                                          : ": role '" + one_line(role) +
                                                "' stands in two places; a role belongs to one group"));
            taken.push_back(role);
        }
    const std::vector<std::size_t> groups = groups_of(problem);
    for (std::size_t group = 0; group < problem.groups.size(); ++group)
        if (std::ranges::find(groups, group) == groups.end())
            throw Error(title(problem, group) +
                        " has no tensor; remove it, or give a tensor one of its roles");
    for (std::size_t i = 0; i < groups.size(); ++i)
        if (problem.groups[groups[i]].rule == Rule::muon)
            check_matrix(problem, groups[i], problem.tensors[i]);
    static_cast<void>(layout_of(problem));
}

Index micro_batches_of(const Problem& problem) {
    return std::accumulate(problem.micro_batches.begin(), problem.micro_batches.end(), Index{0});
}

Index divisor_of(const Problem& problem) {
    return problem.accumulation == Accumulation::mean ? micro_batches_of(problem) : problem.ranks;
}

bool is_node(Index begin, Index end, Index leaves) {
    for (Index width = 1;; width *= 2) {
        if (begin % width != 0)
            return false;
        if (end == std::min(begin + width, leaves))
            return true;
        if (width >= leaves)
            return false;
    }
}

double rate_factor(Scale scale, Index rows, Index columns) {
    const auto m = static_cast<double>(rows);
    const auto n = static_cast<double>(columns);
    switch (scale) {
    case Scale::original:
        return std::sqrt(std::max(1.0, m / n));
    case Scale::match_rms_adamw:
        return 0.2 * std::sqrt(std::max(m, n));
    case Scale::spectral_unclamped:
        return std::sqrt(m / n);
    case Scale::none:
        break;
    }
    return 1.0;
}

void check_rates(const Problem& problem, const std::vector<double>& rates) {
    if (rates.size() != problem.groups.size())
        throw Error("learning_rate: " + std::to_string(rates.size()) + " given for " +
                    std::to_string(problem.groups.size()) + " groups; give one for each group");
    for (std::size_t group = 0; group < rates.size(); ++group)
        check_limits("learning_rate of " + title(problem, group), rates[group], not_negative);
}

} // namespace truestep::problem::dense
