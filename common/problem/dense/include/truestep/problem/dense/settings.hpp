// The settings of dense training under data parallelism (docs/specification/dense.md), their checks
// and their names in files: on all of this the ranks have to agree.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/layout.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem::dense {

enum class Rule : std::uint8_t { sgd, adam, adamw, muon };
/// The order in which the micro-batches' gradients are added.
enum class Order : std::uint8_t {
    rank, ///< each rank its own, then the ranks' sums, both ascending
    tree, ///< one binary tree over the global index, whose bits do not depend on the ranks
};
/// The number that divides the sum of the gradients.
enum class Accumulation : std::uint8_t {
    mean, ///< the number of all micro-batches
    sum,  ///< the number of ranks: each gradient has been divided by its rank's number already
};
/// The values that the model computes with: the fp32 masters, or their copies rounded to bf16.
enum class Copies : std::uint8_t { none, bf16 };
/// Whether epsilon is added to the second moment's root after the bias correction, or before it.
enum class EpsilonPlace : std::uint8_t { corrected, uncorrected };
enum class Orthogonalization : std::uint8_t { newton_schulz, polar_express };
/// The format to which Muon's iteration rounds after each of its operations.
enum class Iteration : std::uint8_t { fp32, bf16 };
/// The factor on Muon's learning rate, by the shape of the matrix.
enum class Scale : std::uint8_t { original, match_rms_adamw, spectral_unclamped, none };

// A choice as files and options have it: its setting, then the words in the order of its values.
[[nodiscard]] constexpr auto words(Rule) {
    return std::array<std::string_view, 5>{"rule", "sgd", "adam", "adamw", "muon"};
}
[[nodiscard]] constexpr auto words(Order) {
    return std::array<std::string_view, 3>{"order", "rank", "tree"};
}
[[nodiscard]] constexpr auto words(Accumulation) {
    return std::array<std::string_view, 3>{"accumulation", "mean", "sum"};
}
[[nodiscard]] constexpr auto words(Copies) {
    return std::array<std::string_view, 3>{"copies", "none", "bf16"};
}
[[nodiscard]] constexpr auto words(EpsilonPlace) {
    return std::array<std::string_view, 3>{"epsilon_place", "corrected", "uncorrected"};
}
[[nodiscard]] constexpr auto words(Orthogonalization) {
    return std::array<std::string_view, 3>{"orthogonalization", "newton_schulz", "polar_express"};
}
[[nodiscard]] constexpr auto words(Iteration) {
    return std::array<std::string_view, 3>{"iteration", "fp32", "bf16"};
}
[[nodiscard]] constexpr auto words(Scale) {
    return std::array<std::string_view, 5>{"scale", "original", "match_rms_adamw", "spectral_unclamped",
                                           "none"};
}

template <class Choice>
concept HasWords = requires {
    words(Choice{});
};

template <HasWords Choice>
[[nodiscard]] constexpr std::string_view name(Choice value) {
    return words(value)[1 + static_cast<std::size_t>(value)];
}

/// Throws truestep::Error that lists the words that would do.
template <HasWords Choice>
[[nodiscard]] Choice parse(std::string_view text) {
    constexpr auto all = words(Choice{});
    static_assert(std::ranges::none_of(all, &std::string_view::empty),
                  "a word for each value, and no more");
    std::string known;
    for (std::size_t i = 1; i < all.size(); ++i) {
        if (all[i] == text)
            return static_cast<Choice>(i - 1);
        known += (i == 1 ? "" : ", ") + std::string(all[i]);
    }
    throw Error(std::string(all[0]) + " is '" + one_line(std::string(text)) + "'; it must be one of " +
                known);
}

/// One tensor of the model. Its role decides which group, and so which rule, it belongs to; its
/// shape never does.
struct Tensor {
    std::string name;
    std::vector<Index> shape; ///< a scalar has none
    std::string role;

    [[nodiscard]] Index size() const;
    friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// A parameter group: the tensors of some roles, trained by one rule with these settings. Each rule
/// uses those that `visit_settings` shows.
struct Group {
    Rule rule = Rule::adamw;
    std::vector<std::string> roles{};
    double weight_decay = 0.01;
    double momentum = 0.0;
    double dampening = 0.0;
    bool nesterov = false;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    EpsilonPlace epsilon_place = EpsilonPlace::corrected;
    Orthogonalization orthogonalization = Orthogonalization::newton_schulz;
    std::array<double, 3> coefficients{3.4445, -4.7750, 2.0315};
    int iterations = 5;
    Iteration iteration = Iteration::fp32;
    Scale scale = Scale::original;

    friend bool operator==(const Group&, const Group&) = default;
};

/// A group with PyTorch's defaults for the rule.
[[nodiscard]] Group group_of(Rule rule, std::vector<std::string> roles);

[[nodiscard]] constexpr bool is_adam(Rule rule) {
    return rule == Rule::adam || rule == Rule::adamw;
}
/// Whether weight decay is added to the gradient, not taken off the parameters.
[[nodiscard]] constexpr bool is_coupled(Rule rule) {
    return rule == Rule::sgd || rule == Rule::adam;
}
/// Whether the group keeps a first moment, or momentum, from step to step.
[[nodiscard]] constexpr bool has_first_moment(const Group& group) {
    return group.rule != Rule::sgd || group.momentum != 0.0;
}

/// Calls visit(name, member) for each setting that the group's rule uses, in the order of the
/// files. For a word it also passes the function that parses it.
template <class AnyGroup, class Visit>
void visit_settings(AnyGroup& group, const Visit& visit) {
    visit("weight_decay", group.weight_decay);
    if (is_adam(group.rule)) {
        visit("beta1", group.beta1);
        visit("beta2", group.beta2);
        visit("epsilon", group.epsilon);
        visit("epsilon_place", group.epsilon_place, parse<EpsilonPlace>);
        return;
    }
    visit("momentum", group.momentum);
    visit("nesterov", group.nesterov);
    if (group.rule == Rule::sgd) {
        visit("dampening", group.dampening);
        return;
    }
    visit("orthogonalization", group.orthogonalization, parse<Orthogonalization>);
    visit("iterations", group.iterations);
    if (group.orthogonalization == Orthogonalization::newton_schulz) {
        visit("a", group.coefficients[0]);
        visit("b", group.coefficients[1]);
        visit("c", group.coefficients[2]);
    }
    visit("epsilon", group.epsilon);
    visit("iteration", group.iteration, parse<Iteration>);
    visit("scale", group.scale, parse<Scale>);
}

/// The model that is trained, its rules, and how the gradients come together.
struct Problem {
    int ranks = 1;
    std::vector<int> micro_batches{1}; ///< of each rank, in a step
    Order order = Order::rank;
    Accumulation accumulation = Accumulation::mean;
    double clip_norm = 0.0; ///< 0: no clipping
    Copies copies = Copies::none;
    std::vector<Tensor> tensors;
    std::vector<Group> groups;

    friend bool operator==(const Problem&, const Problem&) = default;
};

constexpr int most_micro_batches = 1 << 20; ///< of all ranks in a step

/// Throws truestep::Error, one line, for a setting that is impossible, a tensor without a role or
/// with a role that no group takes, a group without tensors, what Muon cannot take, and a split
/// that the order does not allow.
void check(const Problem& problem);

/// The group of each tensor, by its role alone. Throws truestep::Error.
[[nodiscard]] std::vector<std::size_t> groups_of(const Problem& problem);

/// The tensors as one flat vector; each has its group as parameter group.
[[nodiscard]] Layout layout_of(const Problem& problem);

/// All micro-batches of a step, and what the sum of their gradients is divided by.
[[nodiscard]] Index micro_batches_of(const Problem& problem);
[[nodiscard]] Index divisor_of(const Problem& problem);

/// Whether [begin, end) is a node of the binary tree over `leaves` of them: its sum is then one
/// number that whoever holds these leaves can make alone.
[[nodiscard]] bool is_node(Index begin, Index end, Index leaves);

/// The factor on Muon's learning rate for a matrix of that shape.
[[nodiscard]] double rate_factor(Scale scale, Index rows, Index columns);

/// Throws truestep::Error unless there is a finite rate of 0 or more for each group.
void check_rates(const Problem& problem, const std::vector<double>& rates);

} // namespace truestep::problem::dense
