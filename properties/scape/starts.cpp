// Property 14 of section 8: ranks that were given different or impossible things do not begin.
#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <truestep/gate/changed_setting.hpp>
#include <truestep/problem/settings.hpp>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

/// A way to give one rank something else, as another case. `shows`: whether that makes another problem at
/// all.
struct Way {
    std::string what; ///< the field's name in an error, and in what implementations lack
    std::function<void(Case&)> change;
    std::function<bool(const Case&)> shows;
    std::string lacks{}; ///< what an implementation without it says that it lacks, if not `what`
};

void other_partition(Case& run) {
    using problem::PartitionRule;
    run.partition =
        run.partition == PartitionRule::by_shard ? PartitionRule::by_tensor : PartitionRule::by_shard;
}

/// The first tensor that is not empty.
problem::Tensor& first_of(Case& run) {
    return *std::ranges::find_if(run.tensors, [](const auto& tensor) { return tensor.size > 0; });
}

void cut_in_two(Case& run) {
    auto& first = first_of(run);
    const auto rest = first.size / 2;
    first.size -= rest;
    run.tensors.insert(run.tensors.begin() + (&first - run.tensors.data()) + 1, {"cut", rest, false});
}

/// Those that dense AdamS has, too, come first. Settings come from their own list, but for the norm, which
/// matters only with clipping.
const std::vector<Way>& ways() {
    using problem::NormVersion;
    static const std::vector<Way> all{
        {"tensors", cut_in_two, [](const Case& run) { return run.size() > 1; }},
        {"partition", other_partition,
         [](const Case& run) {
             Case other = run;
             other_partition(other);
             return problem_of(run).segments != problem_of(other).segments;
         }},
        {"partition", [](Case& run) { run.owners_in_turn = !run.owners_in_turn; },
         [](const Case& run) {
             Case other = run;
             other.owners_in_turn = !run.owners_in_turn;
             return !problem::rounds_mean(run.payload) &&
                    problem_of(run).segments != problem_of(other).segments;
         },
         "owners"},
        {"norm",
         [](Case& run) {
             run.norm = run.norm == NormVersion::tree ? NormVersion::ascending : NormVersion::tree;
         },
         [](const Case& run) { return run.clip_norm > 0.0; }},
        {"groups",
         [](Case& run) {
             run.groups = run.groups.empty() ? problem::Groups{run.workers - 1, 1} : problem::Groups{};
         },
         [](const Case& run) {
             return run.groups.empty() ? run.workers > 2 : problem::has_levels(groups_of(run));
         }},
        {"density",
         [](Case& run) {
             run.density = run.density == 0.25 ? 0.75 : 0.25;
             if (run.schedule == DensityRule::jumps)
                 return; // as many entries, and often only those in the middle differ
             run.start = run.density;
             run.schedule = DensityRule::geometric;
             run.warm_up = 0;
         },
         [](const Case&) { return true; }},
        {"tensors", [](Case& run) { first_of(run).always_dense = !first_of(run).always_dense; },
         [](const Case&) { return true; }},
    };
    return all;
}

constexpr std::size_t of_adams = 2; ///< how many of `ways()`, from the first on

/// All ranks must end with an error before they have done anything. Where the implementation says what
/// differs, the error names `field`.
void expect_none_begins(Trial& trial, Scenario scenario, const std::string& why, const std::string& field) {
    const std::size_t ranks = scenario.setup.ranges.size();
    const std::size_t steps = scenario.actions.size();
    const RunRecording& ran = trial.failing(std::move(scenario));
    for (const ActionRecording& step : ran.after)
        trial.expect(step.outcomes.front().kind == Outcome::Kind::refused, why + ", and a step is taken");
    trial.expect(ran.after.size() < steps, why + ", and the run goes to its end");
    trial.expect(ran.ended.size() == ranks, why + ", and the run ended otherwise: " + ran.error);
    for (std::size_t rank = 0; rank < ranks; ++rank)
        trial.expect(!ran.ended[rank].empty(),
                     why + ", and rank " + std::to_string(rank) + " has nothing to say against it");
    for (std::size_t rank = 0; trial.implementation().names_differences() && rank < ranks; ++rank)
        trial.expect(ran.ended[rank].find(field) != std::string::npos,
                     why + ", and the error of rank " + std::to_string(rank) + " does not name '" + field +
                         "': " + ran.ended[rank]);
}

std::size_t odd_one(const Case& run) {
    return static_cast<std::size_t>(run.chosen_rank % run.workers);
}

std::string name_of_rank(std::size_t rank) {
    return "rank " + std::to_string(rank);
}

/// The smallest possible change; of a zero, its sign.
float next_to(float value) {
    return value == 0.0F ? -value : std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1U);
}

float no_finite_number(std::uint64_t drawn) {
    using Limits = std::numeric_limits<float>;
    const std::vector<float> all{Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()};
    return all[drawn % all.size()];
}

Setup with(Setup setup, std::size_t place, const std::function<float(float)>& change) {
    setup.parameters[place] = change(setup.parameters[place]);
    return setup;
}

/// A payload that rounds means needs each segment within the range of its owner. Moves a border between two
/// ranges by a coordinate, and returns whether a segment then is not.
bool cuts_a_segment(Setup& setup, const Case& run) {
    if (run.workers == 1)
        return false;
    setup.problem.settings.payload =
        run.seed % 2 == 0 ? problem::Payload::bf16_both : problem::Payload::e5m2_both;
    const auto before = static_cast<std::size_t>(run.chosen_rank % (run.workers - 1));
    problem::Range& lower = setup.ranges[before];
    problem::Range& upper = setup.ranges[before + 1];
    if (run.seed / 2 % 2 == 0 && lower.begin < lower.end)
        upper.begin = --lower.end;
    else if (upper.begin < upper.end)
        lower.end = ++upper.begin;
    return std::ranges::any_of(setup.problem.segments, [&](const problem::Segment& segment) {
        const problem::Range& own = setup.ranges[static_cast<std::size_t>(segment.owner)];
        return segment.begin < own.begin || segment.end > own.end;
    });
}

/// A problem that cannot be.
struct Impossible {
    std::string word; ///< in an error about it
    std::string how;
    problem::Problem problem;
};

std::vector<Impossible> impossible_problems(const problem::Problem& good) {
    std::vector<Impossible> all;
    const auto with = [&](const char* word, const char* how) -> problem::Problem& {
        return all.emplace_back(word, how, good).problem;
    };
    with("weight_decay", "one below 0").settings.more_weight_decays = {0.5, -0.5};
    with("groups", "a rank too many").settings.groups = {good.workers, 1};
    with("groups", "a rank too few").settings.groups = {good.workers - 1};
    with("groups", "one of -1 ranks").settings.groups = {good.workers + 1, -1};
    with("segments", "the last is missing").segments.pop_back();
    --with("segments", "the last ends too early").segments.back().end;
    ++with("segments", "the last ends too late").segments.back().end;
    ++with("segments", "the last begins too late").segments.back().begin;
    with("segments", "an owner that is no rank").segments.back().owner = good.workers;
    with("segments", "an owner of -1").segments.back().owner = -1;
    if (good.algorithm == problem::Algorithm::adams) {
        with("clip_norm", "AdamS has none").settings.clip_norm = 1.0;
        with("payload", "AdamS has fp32 alone").settings.payload = problem::Payload::bf16;
        with("groups", "AdamS has none").settings.groups = {good.workers};
    }
    return all;
}

void none_begins_with_impossible_problems(Trial& trial, const Scenario& scenario) {
    const auto expect_refused = [&](Scenario impossible, const std::string& what, const std::string& how) {
        expect_none_begins(trial, std::move(impossible), "all ranks are given an impossible " + what + how,
                           what);
    };
    for (const Impossible& one : impossible_problems(scenario.setup.problem)) {
        Scenario impossible = scenario;
        impossible.setup.problem = one.problem;
        expect_refused(std::move(impossible), one.word, " (" + one.how + ")");
    }
    const auto [what, all] = gate::impossible_settings(scenario.setup.problem.settings, trial.run().seed);
    for (const problem::HyperParameters& settings : all) {
        Scenario impossible = scenario;
        impossible.setup.problem.settings = settings;
        expect_refused(std::move(impossible), what, "");
    }
}

void none_begins(Trial& trial) {
    const Case& run = trial.run();
    const std::size_t odd = odd_one(run);
    const std::string who = name_of_rank(odd) + " is given ";
    const auto place = static_cast<std::size_t>(run.chosen_place % run.size());
    Scenario scenario = trial.steps(run, 1);

    const Setup& good = scenario.setup;
    const float wrong = no_finite_number(run.seed);
    const Setup not_finite = with(good, place, [&](float) { return wrong; });
    const Implementation& of = trial.implementation();
    // One time in three each: what all are given cannot be, a parameter differs, a setting differs.
    const auto kind = run.chosen_place / 3 % 3;
    if ((kind == 0 || run.workers == 1) && of.names_differences() && run.chosen_place / 9 % 2 == 1) {
        Setup cut = good;
        if (of.algorithm() != problem::Algorithm::scape || run.chosen_place / 18 % 3 > 0 ||
            !cuts_a_segment(cut, run))
            return none_begins_with_impossible_problems(trial, scenario);
        scenario.setup = std::move(cut);
        return expect_none_begins(trial, std::move(scenario), "ranges cut a segment whose mean is rounded",
                                  "payload");
    }
    if (kind == 0 || run.workers == 1) {
        trial.classify(true, "parameters that are not finite");
        scenario.setup = not_finite;
        return expect_none_begins(trial, std::move(scenario),
                                  "all ranks are given a parameter that is not finite", "parameter");
    }
    if (kind == 1) {
        const bool finite = run.chosen_place / 9 % 4 > 0;
        trial.classify(finite, "parameters that differ in a bit");
        if (of.names_differences()) {
            Scenario other_rate = scenario;
            other_rate.actions.front().odd_rank = static_cast<int>(odd);
            expect_none_begins(trial, std::move(other_rate), who + "another rate", "learning rate");
        }
        scenario.odd = {static_cast<int>(odd), finite ? with(good, place, next_to) : not_finite};
        return expect_none_begins(trial, std::move(scenario), who + "another parameter", "parameters");
    }
    const bool adams = of.algorithm() == problem::Algorithm::adams;
    // Optimized code takes one order of decay. Whoever has no words of ours is not told how k is rounded.
    std::set<std::string> but{"norm", "decay_order", of.names_differences() ? "" : "k_rounding"};
    if (adams)
        but.insert({"clip_norm", "payload"});
    for (const auto& [what, why] : of.unsupported())
        but.insert(what);
    const std::vector<std::string> settings = gate::names_of_settings(good.problem.settings, but);
    const auto drawn = static_cast<std::size_t>(run.chosen_place / 9) %
                       (settings.size() + (adams ? of_adams : ways().size()));
    std::string what = settings[drawn % settings.size()];
    Setup other = good;
    const Way* const way = drawn < settings.size() ? nullptr : &ways()[drawn - settings.size()];
    if (way != nullptr && way->shows(run) &&
        !of.unsupported().contains(way->lacks.empty() ? way->what : way->lacks)) {
        what = way->what;
        Case changed = run;
        way->change(changed);
        if (what == "density" && !of.names_differences()) // a program is given the first density alone
            changed.start = changed.density;
        other = trial.steps(changed, 0).setup;
        other.parameters = good.parameters;
    } else {
        gate::change_setting(other.problem.settings, what);
    }
    trial.classify(true, "settings that differ");
    scenario.odd = {static_cast<int>(odd), std::move(other)};
    expect_none_begins(trial, std::move(scenario), who + "another setting: " + what, what);
}

/// The state after a step from zeros, with all coordinates in the coming mask.
InitialState a_state(const Case& run) {
    InitialState begun;
    begun.step = 1;
    begun.residual.assign(static_cast<std::size_t>(run.workers),
                          std::vector<float>(static_cast<std::size_t>(run.size()), 0.0F));
    begun.mask.assign(static_cast<std::size_t>((run.size() + 7) / 8), 0);
    for (Index index = 0; index < run.size(); ++index)
        begun.mask[static_cast<std::size_t>(index / 8)] |=
            static_cast<std::uint8_t>(1U << static_cast<unsigned>(index % 8));
    return begun;
}

void none_goes_on(Trial& trial) {
    const Case& run = trial.run();
    const auto place = static_cast<std::size_t>(run.chosen_place % run.size());
    Scenario scenario = trial.steps(run, 1);
    scenario.setup.begun = a_state(run);
    if (trial.implementation().names_differences() && run.chosen_place / 3 % 5 == 4) {
        scenario.setup.begun->moment.assign(static_cast<std::size_t>(run.size()), 0.5F);
        scenario.setup.begun->moment[place] = no_finite_number(run.seed);
        return expect_none_begins(trial, std::move(scenario),
                                  "all ranks go on from a moment that is not finite", "moment");
    }
    Setup other = scenario.setup;
    std::string what;
    std::string told = "differ in the ";
    switch (run.chosen_place / 3 % 4) {
    case 0:
        what = "the state of another step";
        told += "step";
        ++other.begun->step;
        break;
    case 1:
        what = "another mask";
        told += "coming mask";
        other.begun->mask[place / 8] ^= static_cast<std::uint8_t>(1U << (place % 8));
        break;
    case 2:
        what = "another moment";
        told += "moment";
        scenario.setup.begun->moment.assign(static_cast<std::size_t>(run.size()), 0.5F);
        other = scenario.setup;
        other.begun->moment[place] = next_to(0.5F);
        break;
    default:
        what = "no state";
        told = "state";
        other.begun.reset();
        break;
    }
    trial.classify(other.begun.has_value(), "states that differ");
    trial.classify(!other.begun.has_value(), "a rank without the state");
    const std::size_t odd = odd_one(run);
    // A step that is refused for a gradient compares no states, so the next one has to.
    if (other.begun && other.begun->step == scenario.setup.begun->step && run.seed % 2 == 1) {
        scenario.actions.push_back(scenario.actions.front());
        scenario.actions.front().gradients[odd][place] = std::numeric_limits<float>::quiet_NaN();
    }
    scenario.odd = {static_cast<int>(odd), std::move(other)};
    expect_none_begins(trial, std::move(scenario),
                       name_of_rank(odd) + " goes on from " + what + ", the others do not", told);
}

} // namespace

std::vector<Property> start_properties() {
    return {{14, "starts",
             "Ranks that were given different or impossible settings or parameters do not begin, and each "
             "says so.",
             any_case, none_begins,
             usual_demands({"settings that differ", "parameters that differ in a bit",
                            "parameters that are not finite"}),
             cannot_differ},
            {14, "starts.states", "Ranks that go on from different states take no step, and each says so.",
             any_case, none_goes_on, usual_demands({"states that differ", "a rank without the state"}),
             cannot_differ, [](Case& run) {
                 run.workers = std::max(run.workers, 2);
                 run.payload = problem::Payload::fp32;
             }}};
}

} // namespace truestep::properties::scape
