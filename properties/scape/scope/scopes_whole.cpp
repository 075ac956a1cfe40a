// Models of at most three parameters, each run on its own with everything: layout, partition, ranks without
// parameters, clipping.
#include <algorithm>
#include <set>
#include <utility>

#include <truestep/problem/text.hpp>

#include "by_hand.hpp"
#include "scopes.hpp"

namespace truestep::properties::scape::scope {

namespace {

using problem::PartitionRule;

/// All layouts of d parameters: cut anywhere, each tensor always dense or not.
std::vector<std::vector<problem::Tensor>> layouts(int d) {
    std::vector<std::vector<problem::Tensor>> all;
    for (unsigned cuts = 0; cuts < (1U << static_cast<unsigned>(d - 1)); ++cuts) {
        std::vector<problem::Tensor> tensors{{"a", 1, false}};
        for (int i = 1; i < d; ++i)
            if ((cuts >> static_cast<unsigned>(i - 1) & 1U) != 0)
                tensors.push_back({std::string(1, static_cast<char>('a' + i)), 1, false});
            else
                ++tensors.back().size;
        for (unsigned dense = 0; dense < (1U << tensors.size()); ++dense) {
            for (std::size_t i = 0; i < tensors.size(); ++i)
                tensors[i].always_dense = (dense >> i & 1U) != 0;
            all.push_back(tensors);
        }
    }
    return all;
}

std::vector<Densities> all_densities() {
    std::vector<Densities> all;
    for (int first = 1; first <= 3; ++first)
        for (int second = 1; second <= 3; ++second)
            for (int third = 1; third <= 3; ++third)
                all.push_back({density_for(first), density_for(second), density_for(third)});
    return all;
}

/// Everything but gradients, parameters, betas, correction, decay and clipping.
std::vector<TinyProblem> cuts(int d, int workers) {
    std::vector<TinyProblem> all;
    for (const auto& tensors : layouts(d))
        for (const PartitionRule rule : {PartitionRule::by_shard, PartitionRule::by_tensor})
            for (const bool in_turn : {false, true})
                for (const Densities& densities : all_densities()) {
                    TinyProblem problem;
                    problem.settings.tensors = tensors;
                    problem.settings.workers = workers;
                    problem.settings.partition = rule;
                    problem.settings.owners_in_turn = in_turn;
                    problem.densities = densities;
                    all.push_back(std::move(problem));
                }
    return all;
}

/// One of each set of equal problems: the same tensors, ranges, owners and ks. An always-dense segment is
/// not treated as one of density 1, nor a border of tensors as one of ranges: that would have hidden a
/// known bug.
std::vector<TinyProblem> distinct_cuts(int d, int workers) {
    std::set<std::vector<Index>> seen;
    std::vector<TinyProblem> result;
    for (TinyProblem& problem : cuts(d, workers)) {
        const auto whole = properties::scape::problem_of(problem.settings);
        std::vector<Index> key;
        for (const problem::Tensor& tensor : problem.settings.tensors)
            key.insert(key.end(), {tensor.size, tensor.always_dense ? 1 : 0});
        for (const problem::Range& range :
             problem::ranges(whole.layout, workers, problem.settings.partition))
            key.push_back(range.end);
        for (const problem::Segment& segment : whole.segments) {
            key.insert(key.end(), {segment.end, segment.owner});
            for (const double density : problem.densities)
                key.push_back(problem::selected_count(segment, density, problem::KRounding::floor));
        }
        if (seen.insert(key).second)
            result.push_back(std::move(problem));
    }
    return result;
}

constexpr std::array<float, 3> parameters_of_whole{0.5F, -2.0F, 1.0F};

void fill(TinyProblem& problem, const std::function<float()>& next) {
    const auto d = static_cast<std::size_t>(problem.settings.size());
    problem.parameters.assign(parameters_of_whole.begin(),
                              parameters_of_whole.begin() + static_cast<std::ptrdiff_t>(d));
    for (Gradients& of_step : problem.gradients) {
        of_step.assign(static_cast<std::size_t>(problem.settings.workers), std::vector<float>(d));
        for (std::vector<float>& g : of_step)
            for (float& value : g)
                value = next();
    }
}

TinyProblem with(TinyProblem problem, const properties::scape::Case& arithmetic, double clip_norm) {
    problem.settings.beta1 = arithmetic.beta1;
    problem.settings.beta2 = arithmetic.beta2;
    problem.settings.bias_correction = arithmetic.bias_correction;
    problem.settings.weight_decay = arithmetic.weight_decay;
    problem.settings.clip_norm = clip_norm;
    return problem;
}

/// All gradients of a problem with these values, in shares of about a second.
void add_all_gradients(std::vector<Task>& tasks, const TinyProblem& problem,
                       const std::vector<float>& of = {values.begin(), values.end()}) {
    constexpr std::uint64_t share = 20'000;
    std::uint64_t count = 1;
    for (Index left = steps * problem.settings.workers * problem.settings.size(); left > 0; --left)
        count *= of.size();
    for (std::uint64_t begin = 0; begin < count; begin += share)
        tasks.emplace_back([problem, of, begin, end = std::min(count, begin + share)](
                               const SmallScopeHarness& lab, Tally& tally) {
            TinyProblem one = problem;
            for (std::uint64_t number = begin; number < end && !tally.over(); ++number) {
                std::uint64_t left = number;
                fill(one, [&] {
                    const float value = of[left % of.size()];
                    left /= of.size();
                    return value;
                });
                lab.judge_whole(one, tally);
            }
        });
}

/// Few enough values that the gradients of every cut can be enumerated.
const std::vector<float> four_values{-2.0F, -0.5F, 0.0F, 1.0F};
const std::vector<float> three_values{-0.5F, 0.0F, 1.0F};
const std::vector<float> two_values{-0.5F, 1.0F};

std::string list_of(const std::vector<float>& few) {
    std::string text;
    for (const float value : few)
        text += (text.empty() ? "{" : ", ") + shortest(value);
    return text + "}";
}

/// Every cut of d parameters on so many ranks, with every gradient.
Scope whole(int d, int workers, double clip_norm,
            const std::vector<problem::BiasCorrection>& of_corrections,
            const std::vector<bool>& exact_betas,
            const std::vector<float>& of = {values.begin(), values.end()}) {
    Scope scope;
    scope.name =
        (clip_norm > 0.0 ? "clipped " : "whole ") + std::to_string(d) + " x " + std::to_string(workers);
    std::size_t all = 0;
    for (const problem::BiasCorrection correction : of_corrections)
        for (const bool exact : exact_betas) {
            all += cuts(d, workers).size();
            for (const TinyProblem& problem : distinct_cuts(d, workers))
                add_all_gradients(scope.tasks, with(problem, settings_with(correction, exact), clip_norm),
                                  of);
        }
    std::uint64_t gradients = 1;
    for (int left = steps * d * workers; left > 0; --left)
        gradients *= of.size();
    scope.stands_for = std::to_string(all * gradients);
    scope.proves = "proved for all: models of " + std::to_string(d) +
                   (d == 1 ? " parameter on " : " parameters on ") + std::to_string(workers) +
                   (workers == 1 ? " rank" : " ranks") + ", run by themselves, " +
                   (clip_norm > 0.0 ? "clipped to a norm of 1" : "not clipped") +
                   ", every layout, partition, ownership and k, " +
                   (of.size() == values.size() ? "every gradient" : "every gradient of " + list_of(of)) +
                   (of_corrections.size() > 1 ? ", 3 corrections"
                                              : ", " + std::string(problem::name(of_corrections.front()))) +
                   (exact_betas.size() > 1 ? ", 2 pairs of betas" : ", betas 0.9/0.95");
    return scope;
}

std::string by_hand_of(const TinyProblem& problem) {
    const auto whole = properties::scape::problem_of(problem.settings);
    const auto expected = properties::scape::segments_by_hand(problem.settings);
    if (expected.size() != whole.segments.size())
        return "another number of segments than by hand";
    for (std::size_t number = 0; number < expected.size(); ++number) {
        const problem::Segment& segment = whole.segments[number];
        const properties::scape::SegmentByHand& hand = expected[number];
        if (segment.begin != hand.begin || segment.end != hand.end || segment.owner != hand.owner ||
            segment.always_dense != hand.always_dense)
            return "segment " + std::to_string(number) + " is not the one made by hand";
        for (const double density : problem.densities) {
            Index k = 0; // the most that the density allows, by counting
            while (static_cast<double>(k + 1) <= density * static_cast<double>(hand.size()))
                ++k;
            k = hand.always_dense ? hand.size() : std::max<Index>(k, 1);
            if (k != problem::selected_count(segment, density, problem::KRounding::floor))
                return "k of segment " + std::to_string(number) + " is not the one made by hand";
        }
    }
    return "";
}

} // namespace

properties::scape::Case settings_with(problem::BiasCorrection correction, bool exact) {
    properties::scape::Case settings;
    settings.beta1 = exact ? 0.5 : 0.9;
    settings.beta2 = exact ? 0.75 : 0.95;
    settings.bias_correction = correction;
    settings.weight_decay = 0.1;
    return settings;
}

Scope settings_by_hand() {
    Scope scope{
        "settings",
        "proved for all: segments, owners and every k of every layout of at most 3 parameters, both "
        "partitions, both ownerships, 1 to 3 ranks are those of section 2, made by hand",
        "",
        {}};
    for (int d = 1; d <= 3; ++d)
        for (int workers = 1; workers <= 3; ++workers)
            scope.tasks.emplace_back([d, workers](const SmallScopeHarness&, Tally& tally) {
                for (TinyProblem& problem : cuts(d, workers)) {
                    tally.add(1);
                    if (const std::string what = by_hand_of(problem); !what.empty()) {
                        fill(problem, [] { return 1.0F; });
                        tally.found({what, text(problem), ""});
                        return;
                    }
                }
            });
    return scope;
}

std::vector<Scope> whole_problems(Extent extent) {
    constexpr auto adam = problem::BiasCorrection::adam;
    const std::vector<problem::BiasCorrection> every(corrections.begin(), corrections.end());
    std::vector<Scope> all;
    for (const double clip_norm : {0.0, 1.0}) {
        const std::vector<bool> both =
            clip_norm > 0.0 ? std::vector<bool>{false} : std::vector<bool>{false, true};
        all.push_back(whole(1, 1, clip_norm, every, both));
        all.push_back(whole(1, 2, clip_norm, every, both));
        all.push_back(whole(2, 1, clip_norm, {adam}, {false}));
        if (extent == Extent::quick) {
            all.push_back(whole(1, 3, clip_norm, {adam}, {false}, three_values));
            all.push_back(whole(3, 1, clip_norm, {adam}, {false}, three_values));
            all.push_back(whole(2, 2, clip_norm, {adam}, {false}, two_values));
            continue;
        }
        all.push_back(whole(1, 3, clip_norm, {problem::BiasCorrection::momentum}, {false}));
        all.push_back(whole(3, 1, clip_norm, {adam}, {false}));
        all.push_back(whole(2, 2, clip_norm, {adam}, {false}, four_values));
        all.push_back(whole(3, 2, clip_norm, {adam}, {false}, two_values));
        all.push_back(whole(2, 3, clip_norm, {adam}, {false}, two_values));
    }
    if (extent == Extent::all) {
        TinyProblem one;
        one.settings.tensors = {{"a", 2, false}};
        one.settings.workers = 2;
        one.settings.partition = PartitionRule::by_tensor;
        one.densities = {0.5, 0.5, 0.5};
        Scope scope{
            "one cut 2 x 2",
            "proved for all: one tensor of 2 parameters on 2 ranks, by_tensor, k = 1, run by itself, "
            "not clipped, adam, betas 0.9/0.95, every gradient",
            "",
            {}};
        add_all_gradients(scope.tasks, with(one, settings_with(adam, false), 0.0));
        all.push_back(std::move(scope));
    }
    return all;
}

Scope drawn_whole(Extent extent) {
    const std::uint64_t draws = extent == Extent::quick ? 10 : 200;
    Scope scope{"drawn whole",
                "drawn, not proved: " + std::to_string(draws) +
                    " gradients (seed 1) of each distinct cut of at most 3 parameters on at most 3 ranks, "
                    "corrections, betas and clipping (off, 0.5, 4) drawn, too",
                "",
                {}};
    for (int d = 1; d <= 3; ++d)
        for (int workers = 1; workers <= 3; ++workers)
            for (std::uint64_t draw = 0; draw < draws; ++draw)
                scope.tasks.emplace_back([d, workers, draw](const SmallScopeHarness& lab, Tally& tally) {
                    static const std::array<double, 3> norms{0.0, 0.5, 4.0};
                    Drawn drawn((draw * 3 + static_cast<std::uint64_t>(d)) * 3 +
                                static_cast<std::uint64_t>(workers));
                    for (const TinyProblem& cut : distinct_cuts(d, workers)) {
                        if (tally.over())
                            return;
                        TinyProblem problem =
                            with(cut,
                                 settings_with(corrections[drawn.number(corrections.size())],
                                               drawn.number(2) == 0),
                                 norms[drawn.number(norms.size())]);
                        fill(problem, [&] { return drawn.value(); });
                        lab.judge_whole(problem, tally);
                    }
                });
    return scope;
}

} // namespace truestep::properties::scape::scope
