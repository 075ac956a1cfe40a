// Models of at most three parameters, each run by itself with all that it has: layout, partition, ranks
// without parameters, clipping.
#include <algorithm>
#include <set>
#include <utility>

#include "by_hand.hpp"
#include "scopes.hpp"

namespace scape::scope {

namespace {

using problem::PartitionRule;

/// All layouts of so many parameters: cut anywhere, each tensor always dense or not.
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
std::vector<Tiny> cuts(int d, int workers) {
    std::vector<Tiny> all;
    for (const auto& tensors : layouts(d))
        for (const PartitionRule rule : {PartitionRule::by_shard, PartitionRule::by_tensor})
            for (const bool in_turn : {false, true})
                for (const Densities& densities : all_densities()) {
                    Tiny problem;
                    problem.settings.tensors = tensors;
                    problem.settings.workers = workers;
                    problem.settings.partition = rule;
                    problem.settings.owners_in_turn = in_turn;
                    problem.densities = densities;
                    all.push_back(std::move(problem));
                }
    return all;
}

/// The first of those that cut the vector alike: the same ranges, segments, owners and ks.
std::vector<Tiny> distinct_cuts(int d, int workers) {
    std::set<std::vector<Index>> seen;
    std::vector<Tiny> result;
    for (Tiny& problem : cuts(d, workers)) {
        const auto whole = properties::problem_of(problem.settings);
        std::vector<Index> key;
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

constexpr std::array<float, 3> usual_parameters{0.5F, -2.0F, 1.0F};

void fill(Tiny& problem, const std::function<float()>& next) {
    const auto d = static_cast<std::size_t>(problem.settings.size());
    problem.parameters.assign(usual_parameters.begin(),
                              usual_parameters.begin() + static_cast<std::ptrdiff_t>(d));
    for (Gradients& of_step : problem.gradients) {
        of_step.assign(static_cast<std::size_t>(problem.settings.workers), std::vector<float>(d));
        for (std::vector<float>& g : of_step)
            for (float& value : g)
                value = next();
    }
}

Tiny with(Tiny problem, const properties::Case& arithmetic, double clip_norm) {
    problem.settings.beta1 = arithmetic.beta1;
    problem.settings.beta2 = arithmetic.beta2;
    problem.settings.bias_correction = arithmetic.bias_correction;
    problem.settings.weight_decay = arithmetic.weight_decay;
    problem.settings.clip_norm = clip_norm;
    return problem;
}

/// All gradients of a problem, in shares of a second or so.
void add_all_gradients(std::vector<Task>& tasks, const Tiny& problem) {
    constexpr std::uint64_t share = 20'000;
    const std::uint64_t count =
        power_of_values(steps * problem.settings.workers * static_cast<int>(problem.settings.size()));
    for (std::uint64_t begin = 0; begin < count; begin += share)
        tasks.emplace_back(
            [problem, begin, end = std::min(count, begin + share)](const Lab& lab, Tally& tally) {
                Tiny one = problem;
                for (std::uint64_t number = begin; number < end && !tally.over(); ++number) {
                    Digits digits(number);
                    fill(one, [&] { return digits.value(); });
                    lab.judge_whole(one, tally);
                }
            });
}

std::string by_hand_of(const Tiny& problem) {
    const auto whole = properties::problem_of(problem.settings);
    const auto expected = properties::segments_by_hand(problem.settings);
    if (expected.size() != whole.segments.size())
        return "another number of segments than by hand";
    for (std::size_t number = 0; number < expected.size(); ++number) {
        const problem::Segment& segment = whole.segments[number];
        const properties::SegmentByHand& hand = expected[number];
        if (segment.begin != hand.begin || segment.end != hand.end || segment.owner != hand.owner ||
            segment.always_dense != hand.always_dense)
            return "segment " + std::to_string(number) + " is not the one made by hand";
        for (const double density : problem.densities) {
            Index k = 0; // the most that the density gives, counted
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

properties::Case settings_with(problem::BiasCorrection correction, bool exact) {
    properties::Case settings;
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
            scope.tasks.emplace_back([d, workers](const Lab&, Tally& tally) {
                for (Tiny& problem : cuts(d, workers)) {
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

Scope whole_problems(Extent extent) {
    Scope scope{"whole", "", "", {}};
    std::uint64_t before = 0;
    const auto add = [&](int d, int workers, bool exact, problem::BiasCorrection correction) {
        before += cuts(d, workers).size() * power_of_values(steps * d * workers);
        for (const Tiny& problem : distinct_cuts(d, workers))
            add_all_gradients(scope.tasks, with(problem, settings_with(correction, exact), 0.0));
    };
    for (const problem::BiasCorrection correction : corrections)
        for (const bool exact : {false, true})
            for (int workers = 1; workers <= 2; ++workers)
                add(1, workers, exact, correction);
    add(2, 1, false, problem::BiasCorrection::adam);
    scope.proves = "proved for all: models run by themselves, not clipped, of 1 parameter on 1 and 2 ranks "
                   "(3 corrections, 2 pairs of betas) and 2 on 1 (adam, 0.9/0.95)";
    if (extent == Extent::all) {
        add(1, 3, false, problem::BiasCorrection::momentum);
        add(3, 1, false, problem::BiasCorrection::adam);
        add(2, 2, false, problem::BiasCorrection::adam);
        scope.proves += ", 1 on 3 (momentum, 0.9/0.95), 3 on 1 and 2 on 2 (adam, 0.9/0.95)";
    }
    scope.proves += ", every layout, partition, ownership, k and gradient";
    scope.stands_for = std::to_string(before);
    return scope;
}

Scope clipped_problems(Extent extent) {
    Scope scope{"clipped", "", "", {}};
    std::uint64_t before = 0;
    const auto add = [&](int d, int workers, problem::BiasCorrection correction) {
        before += cuts(d, workers).size() * power_of_values(steps * d * workers);
        for (const Tiny& problem : distinct_cuts(d, workers))
            add_all_gradients(scope.tasks, with(problem, settings_with(correction, false), 1.0));
    };
    for (const problem::BiasCorrection correction : corrections)
        for (int workers = 1; workers <= 2; ++workers)
            add(1, workers, correction);
    add(2, 1, problem::BiasCorrection::adam);
    scope.proves =
        "proved for all: models run by themselves, clipped to a norm of 1, of 1 parameter on 1 and 2 "
        "ranks (3 corrections) and 2 on 1 (adam)";
    if (extent == Extent::all) {
        add(1, 3, problem::BiasCorrection::momentum);
        add(3, 1, problem::BiasCorrection::adam);
        scope.proves += ", 1 on 3 (momentum), 3 on 1 (adam)";
    }
    scope.proves += ", every layout, partition, ownership, k and gradient";
    scope.stands_for = std::to_string(before);
    return scope;
}

Scope drawn_whole(Extent extent) {
    const std::uint64_t draws = extent == Extent::quick ? 1 : 100;
    Scope scope{"drawn whole",
                "drawn, not proved: " + std::to_string(draws) +
                    " gradients (seed 1) of each distinct cut of at most 3 parameters on at most 3 ranks, "
                    "corrections, betas and clipping (off, 0.5, 4) drawn, too",
                "",
                {}};
    for (int d = 1; d <= 3; ++d)
        for (int workers = 1; workers <= 3; ++workers)
            for (std::uint64_t draw = 0; draw < draws; ++draw)
                scope.tasks.emplace_back([d, workers, draw](const Lab& lab, Tally& tally) {
                    static const std::array<double, 3> norms{0.0, 0.5, 4.0};
                    Drawn drawn((draw * 3 + static_cast<std::uint64_t>(d)) * 3 +
                                static_cast<std::uint64_t>(workers));
                    for (const Tiny& cut : distinct_cuts(d, workers)) {
                        if (tally.over())
                            return;
                        Tiny problem = with(cut,
                                            settings_with(corrections[drawn.number(corrections.size())],
                                                          drawn.number(2) == 0),
                                            norms[drawn.number(norms.size())]);
                        fill(problem, [&] { return drawn.value(); });
                        lab.judge_whole(problem, tally);
                    }
                });
    return scope;
}

} // namespace scape::scope
