// Properties of settings: whom they concern, that each matters, and that all ranks have the same.
#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

#include <truestep/gate/changed_setting.hpp>

#include "trial.hpp"

namespace truestep::properties::dense {

namespace {

// 5. Settings and rate of one group change no bit of another's tensors.
void groups(Trial& trial) {
    const std::vector<RankRecord> all = trial.completed(trial.scenario);
    Scenario changed = trial.scenario;
    changed.problem.groups.front().weight_decay = trial.run_case.decay == 0.0 ? 0.5 : 0.0;
    changed.rates = [rates = trial.scenario.rates](Index step) {
        std::vector<double> other = rates(step);
        other.front() *= 0.25;
        return other;
    };
    const std::vector<RankRecord> others = trial.completed(changed);
    const Problem& problem = trial.scenario.problem;
    for (Index step = 1; step <= trial.scenario.steps; ++step)
        for (std::size_t tensor = 0; tensor < problem.tensors.size(); ++tensor)
            if (groups_of(problem)[tensor] > 0)
                trial.same(part_of(problem, tensor, others[0].steps.at(step).parameters),
                           part_of(problem, tensor, all[0].steps.at(step).parameters), step,
                           "the parameters of tensor " + problem.tensors[tensor].name,
                           "those with another rate and decay of group 0");
}

Case several_groups(Case run) {
    run = uninterrupted(run);
    run.clip = 0.0;
    run.groups = run.groups == Dealing::one ? Dealing::two : run.groups;
    run.tensors.resize(std::max<std::size_t>(2, run.tensors.size()), {"b", {1, 2}, "matrix"});
    run.tensors.front().role = "vector";
    run.tensors.back() = {run.tensors.back().name, {2, 3}, "matrix"};
    return run;
}

// 4. The order of the groups changes no bit.
void order_of_groups(Trial& trial) {
    Scenario other = trial.scenario;
    std::ranges::reverse(other.problem.groups);
    other.rates = [rates = trial.scenario.rates](Index step) {
        std::vector<double> all = rates(step);
        std::ranges::reverse(all);
        return all;
    };
    trial.same_as(other, "those with the groups in another order");
}

Case ordered_groups(Case run) {
    const double clip = run.clip;
    run = several_groups(run);
    run.clip = clip;
    return run;
}

/// Another value that is possible, too.
template <class Value>
void change(const std::string& key, Value& value) {
    if constexpr (std::same_as<Value, bool>)
        value = !value;
    else if constexpr (std::is_enum_v<Value>)
        value = static_cast<Value>((static_cast<std::size_t>(value) + 1) % (words(value).size() - 1));
    else if constexpr (std::integral<Value>)
        value = value > 1 ? 1 : 2; // one more may change nothing: an iteration has converged
    else
        value = key == "epsilon" ? value + 1000.0 : value == 0.0 ? 0.5 : value / 2.0;
}

// 14. Each setting of the run and of a group's rule changes the run.
void matters(Trial& trial) {
    using Change = std::pair<std::string, std::function<void(Problem&)>>;
    std::vector<Change> changes{
        {"accumulation", [](Problem& problem) { change("accumulation", problem.accumulation); }},
        {"copies", [](Problem& problem) { change("copies", problem.copies); }},
        {"clip_norm", [](Problem& problem) { problem.clip_norm = 1e-6; }}};
    Group group = trial.scenario.problem.groups.front();
    visit_settings(group, [&](const std::string& key, const auto&, const auto&...) {
        changes.emplace_back(key, [key](Problem& problem) {
            visit_settings(problem.groups.front(),
                           [&](const std::string& one, auto& value, const auto&...) {
                               if (one == key)
                                   change(key, value);
                           });
        });
    });
    const auto& [key, apply] = changes[static_cast<std::size_t>(trial.run_case.seed) % changes.size()];
    Scenario other = trial.scenario;
    apply(other.problem);
    const std::vector<RankRecord> all = trial.completed(trial.scenario);
    const std::vector<RankRecord> others = trial.completed(other);
    const Index last = trial.scenario.steps;
    const Whole here = trial.whole(all, last);
    const Whole there = trial.whole(others, last);
    trial.expect(here.w != there.w || here.m != there.m || here.v != there.v ||
                     all[0].steps.at(last).parameters != others[0].steps.at(last).parameters,
                 last, "another " + key + " changes nothing in " + std::to_string(last) + " steps");
}

/// A run in which each setting has an occasion.
Case that_tells(Case run) {
    run = uninterrupted(run);
    run.tensors = {{"a", {3, 2}, "matrix"}};
    run.data = DataClass::normal;
    run.steps = 3;
    run.micro = 2;
    run.uneven = 0;
    run.clip = 0.0;
    run.momentum = 0.5;
    run.nesterov = 0;
    run.dampening = 0.0;
    run.beta2 = 0.75;
    run.epsilon = 0.125;
    return run;
}

// 14, 15. A step in which a rank has another or an impossible rate, or lacks a micro-batch, is refused on
// all ranks, which name it; nothing changes, and the step can be tried again.
void tried_again(Trial& trial) {
    using Limits = std::numeric_limits<double>;
    // One differs only in a late bit of the double. 0 stands for a missing micro-batch, and comes twice:
    // three seeds of ten have it, where the property demands a fifth.
    constexpr double rates[]{0.0, 1.0, 0x1p-50, 0.0, -1000.0, Limits::infinity(), Limits::quiet_NaN()};
    Scenario scenario = trial.scenario;
    const Index seed = trial.run_case.seed;
    scenario.odd_rank = static_cast<int>(1 + seed % (scenario.problem.ranks - 1));
    // A step that is refused for a gradient may be tried before, too.
    const Index refused = trial.run_case.refused;
    scenario.odd_step = refused > 0 && seed % 2 == 0 ? refused : 1 + seed % scenario.steps;
    scenario.odd_rate = rates[static_cast<std::size_t>(seed) % std::size(rates)];
    if (scenario.odd_rate == 0x1p-50)
        scenario.odd_rate *= std::max(1.0, trial.run_case.lr);
    const bool lacks = scenario.odd_rate == 0.0;
    trial.kind(lacks, "a micro-batch is missing");
    const std::vector<RankRecord> others = trial.completed(trial.scenario);
    const std::vector<RankRecord> all = trial.completed(scenario, false);
    const std::string name = "rank " + std::to_string(scenario.odd_rank);
    for (int rank = 0; rank < scenario.problem.ranks; ++rank) {
        const std::string& why = all[static_cast<std::size_t>(rank)].tried;
        const bool impossible = !(scenario.odd_rate > 0.0 && std::isfinite(scenario.odd_rate));
        const bool own = impossible && rank == scenario.odd_rank;
        const bool says_what = why.find(lacks ? "micro-batch" : "rate") != std::string::npos;
        trial.expect(
            !why.empty() && why.find('\n') == std::string::npos &&
                (own ? says_what : why.find(name) != std::string::npos && (impossible || says_what)),
            scenario.odd_step,
            name + (lacks ? " lacks a micro-batch" : " has another rate") + ", and rank " +
                std::to_string(rank) +
                (why.empty() ? " takes the step" : " does not name it in one line: " + why));
    }
    trial.same(others, all, "those of a run in which the step is not tried before");
}

Case tried_before(Case run) {
    const Index refused = run.refused;
    run = with_several_ranks(run);
    run.refused = refused;
    return run;
}

/// Expects that every rank refuses to begin, with a line that holds all `words`.
void all_refuse(Trial& trial, const Scenario& scenario, const std::vector<std::string>& words,
                const std::string& why) {
    const std::vector<RankRecord> all = trial.run(scenario);
    for (int rank = 0; rank < trial.scenario.problem.ranks; ++rank) {
        const RankRecord& record = all[static_cast<std::size_t>(rank)];
        const std::string who = "rank " + std::to_string(rank);
        trial.expect(record.steps.empty() && !record.ended.empty(), 0, who + " begins " + why);
        for (const std::string& word : words)
            trial.expect(record.ended.empty() || (record.ended.find(word) != std::string::npos &&
                                                  record.ended.find('\n') == std::string::npos),
                         0,
                         who + " refuses to begin " + why + ", but not in one line with '" + word +
                             "': " + record.ended);
    }
}

// 14, 15. A rank that differs in a setting, a parameter or in who holds what is named, on all ranks.
void differing_settings(Trial& trial) {
    const auto seed = static_cast<std::size_t>(trial.run_case.seed);
    const auto other = static_cast<int>(1 + trial.run_case.seed % (trial.scenario.problem.ranks - 1));
    std::vector<std::pair<std::string, std::function<void(Beginning&)>>> changes{
        {"parameters", [seed](Beginning& beginning) {
             float& value = beginning.parameters[seed * 7919 % beginning.parameters.size()];
             value = std::nextafter(value, value < 1.0F ? 1.0F : 0.0F);
         }}};
    if (!trial.is_program())
        changes.emplace_back("sharded", [](Beginning& beginning) { change("sharded", beginning.sharded); });
    const auto settings = changes_of(trial.scenario.problem);
    const auto& setting = settings[seed % settings.size()];
    changes.emplace_back(setting.first, [&](Beginning& beginning) { setting.second(beginning.problem); });
    const std::string name = "rank " + std::to_string(other);
    for (const auto& applied : changes) { // no binding: Clang before 16 lets no lambda have one
        Scenario scenario = trial.scenario;
        scenario.change = [other, &applied](int rank, Beginning& beginning) {
            if (rank == other)
                applied.second(beginning);
        };
        const std::string& key = applied.first;
        all_refuse(trial, scenario, trial.is_program() ? std::vector{name} : std::vector{name, key},
                   "although " + name + " differs in " + key);
    }
}

// 15. Impossible settings and parameters are refused on all ranks.
void refusal(Trial& trial) {
    Scenario scenario = trial.scenario;
    // A group has many settings, so every second case tries one.
    const Index choice = std::min<Index>(trial.run_case.seed % 14, 7);
    const auto drawn = static_cast<std::uint64_t>(trial.run_case.seed / 14 * 7 + trial.run_case.seed % 14);
    std::string words[]{"no role", "'unknown'", "no tensor", "cube", "tree", "flat", "finite", ""};
    const auto [setting, impossible] =
        gate::impossible_settings(trial.scenario.problem.groups.back(), drawn);
    words[7] = setting.size() == 1 ? "coefficient" : setting;
    Group spoiled;
    scenario.change = [choice, drawn, &spoiled](int, Beginning& beginning) {
        Problem& problem = beginning.problem;
        switch (choice) {
        case 0:
            problem.tensors.front().role.clear();
            break;
        case 1:
            problem.tensors.back().role = "unknown";
            break;
        case 2:
            problem.groups.push_back(group_of(Rule::sgd, {"nothing"}));
            break;
        case 3:
            problem.groups.push_back(group_of(Rule::muon, {"cube"}));
            problem.tensors.push_back({"cube", {1, 1, 2}, "cube"});
            break;
        case 4:
            problem.order = Order::tree;
            // The first share is no node, or the last one.
            problem.micro_batches.front() = 3;
            if (problem.ranks == 2 && drawn % 2 == 1)
                problem.micro_batches = {2, 3};
            break;
        case 5:
            problem.groups.push_back(group_of(Rule::muon, {"flat"}));
            problem.tensors.push_back({"flat", {0, 2}, "flat"});
            break;
        case 7:
            problem.groups.back() = spoiled;
            break;
        default:
            beginning.parameters.back() = -std::numeric_limits<float>::infinity();
        }
    };
    for (std::size_t which = 0; which < (choice == 7 ? impossible.size() : 1); ++which) {
        spoiled = impossible[which];
        all_refuse(trial, scenario, {words[choice]}, "with impossible settings");
    }
}

} // namespace

std::vector<std::pair<std::string, std::function<void(Problem&)>>> changes_of(const Problem& problem) {
    std::vector<std::pair<std::string, std::function<void(Problem&)>>> all{
        {"order", [](Problem& other) { change("order", other.order); }},
        {"accumulation", [](Problem& other) { change("accumulation", other.accumulation); }},
        {"clip_norm", [](Problem& other) { other.clip_norm += 1.0; }},
        {"copies", [](Problem& other) { change("copies", other.copies); }},
        {"tensor", [](Problem& other) { other.tensors.back().name += 'x'; }},
        {"tensor", [](Problem& other) { other.tensors.back().shape.push_back(1); }},
        {"tensor",
         [](Problem& other) {
             Tensor& last = other.tensors.back();
             const Group& first = other.groups.front();
             last.role =
                 first.roles.front() == last.role ? other.groups.back().roles.back() : first.roles.front();
         }},
        {"roles", [](Problem& other) { other.groups.back().roles.emplace_back("spare"); }},
        // Muon has it, too, whatever it divides by.
        {"epsilon",
         [](Problem& other) {
             Group& group = other.groups.back();
             group.epsilon += group.rule == Rule::sgd ? 0.0 : 1000.0;
         }},
        // In some cases there are as many in all.
        {"micro_batches",
         [](Problem& other) {
             ++other.micro_batches.back();
             if (other.order == Order::rank && other.ranks > 1 && other.micro_batches.front() % 2 == 0)
                 --other.micro_batches.front();
         }},
        {"rule", [](Problem& other) {
             Group& group = other.groups.back();
             group = group_of(group.rule == Rule::sgd ? Rule::adam : Rule::sgd, group.roles);
         }}};
    Group last = problem.groups.back();
    visit_settings(last, [&](const std::string& key, const auto&, const auto&...) {
        all.emplace_back(key, [key](Problem& other) {
            visit_settings(other.groups.back(), [&](const std::string& one, auto& value, const auto&...) {
                if (one == key)
                    change(key, value);
            });
        });
    });
    // A rank whose own settings cannot be says that, and not that they differ.
    std::erase_if(all, [&](const auto& one) {
        Problem other = problem;
        one.second(other);
        try {
            check(other);
        } catch (const Error&) {
            return true;
        }
        return other == problem;
    });
    return all;
}

std::vector<gate::Property> setting_properties() {
    return {
        property(5, "groups", "A group's settings change no bit of another's tensors.", groups,
                 {"several groups"}, several_groups),
        property(4, "group_order", "The order of groups changes no bit.", order_of_groups,
                 {"several groups", "muon", "clipped"}, ordered_groups),
        property(14, "matters", "Every setting changes the run.", matters, {"muon", "several ranks"},
                 that_tells),
        property(14, "settings", "A rank that differs in a setting or a parameter is named, on all ranks.",
                 differing_settings, {{"several ranks", 95}}, with_several_ranks),
        property(14, "tried_again",
                 "A step that one rank cannot take as the others is refused on all, and changes nothing.",
                 tried_again, {{"several ranks", 95}, "a micro-batch is missing", "refused"}, tried_before),
        property(15, "refusal", "Impossible settings are refused on all ranks, in one line.", refusal,
                 {{"several ranks", 95}}, with_several_ranks)};
}

} // namespace truestep::properties::dense
