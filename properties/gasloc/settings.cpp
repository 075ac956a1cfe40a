// Every setting has an effect, and impossible settings are refused.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <truestep/gate/changed_setting.hpp>
#include <truestep/problem/text.hpp>

#include "by_hand.hpp"
#include "family.hpp"

namespace truestep::properties::gasloc {

namespace {

using Floats = std::vector<float>;

// 17. Each setting has an effect.
void settings_matter(Trial& trial) {
    Scenario& scenario = trial.scenario;
    trial.lives = trial.play(scenario);
    const auto differs = [&](const char* what, const std::function<void(Scenario&)>& change) {
        Scenario other = scenario;
        change(other);
        const std::vector<RankRecording> lives = trial.play(other);
        bool any = false;
        for (std::size_t i = 0; i < lives.size(); ++i)
            for (const auto& [round, seen] : lives[i].rounds) {
                const auto found = trial.lives[i].rounds.find(round);
                any = any || found == trial.lives[i].rounds.end() ||
                      found->second.state.theta != seen.state.theta;
            }
        trial.expect(any, scenario.rounds,
                     [&] { return std::string("another ") + what + " gives the same bits"; });
    };
    // One worker has no edges, and two always have the same.
    const bool meet = scenario.workers > 1;
    if (meet)
        differs("alpha", [](Scenario& s) { s.settings.alpha *= 0.75; });
    differs("gamma", [](Scenario& s) { s.settings.gamma = s.settings.gamma == 0.25 ? 0.5 : 0.25; });
    differs("eta", [](Scenario& s) { s.settings.eta *= 0.75; });
    if (scenario.workers > 2)
        differs("seed of the graph", [](Scenario& s) {
            // A seed that leads to other pairs in the first round, and differs in its upper half alone.
            const Graph graph = by_hand::graph_of(s.settings, 1, s.workers);
            while (by_hand::graph_of(s.settings, 1, s.workers) == graph)
                s.settings.seed += std::uint64_t{1} << 32U;
        });
    if (meet)
        differs("weight of the edges", [](Scenario& s) {
            for (Index round = 1; round <= s.rounds; ++round) {
                s.settings.given.push_back(by_hand::graph_of(s.settings, round, s.workers));
                for (Edge& edge : s.settings.given.back())
                    edge.weight *= 0.5;
            }
            s.settings.law = Law::given;
        });
    differs("number of inner steps", [](Scenario& s) {
        s.steps = [steps = s.steps](int worker, Index round) { return steps(worker, round) + 1; };
    });
    differs("learning rate", [](Scenario& s) {
        s.learning_rate = [rate = s.learning_rate](Index round, Index step) {
            return rate(round, step) * 0.75;
        };
    });
    differs("learning rate of the second inner step", [](Scenario& s) {
        s.learning_rate = [rate = s.learning_rate](Index round, Index step) {
            return rate(round, step) * (step == 2 ? 0.5 : 1.0);
        };
    });
    differs("weight decay", [](Scenario& s) { s.settings.hyper.weight_decay += 0.5; });
    if (meet)
        differs("placement of the momentum",
                [](Scenario& s) { gate::change_setting(s.settings, "momentum"); });
}

Case mattering(Case run) {
    run = without_restart(run);
    run.law = Law::pairs;
    run.size = std::max<Index>(8, run.size);
    run.rounds = std::max<Index>(3, run.rounds);
    run.steps = std::max<Index>(2, run.steps);
    run.uneven = 0;
    run.skip = 0;
    run.late = 0;
    run.data = problem::DataClass::normal;
    run.lr = 0.125;
    run.alpha = run.alpha == 0.0 ? 0.5 : run.alpha;
    run.gamma = run.gamma == 0.0 ? 0.5 : run.gamma;
    run.epsilon = 0x1p-20;
    return run;
}

// 18. An impossible run does not begin on any rank, and each rank gives the reason.
void refusals(Trial& trial) {
    Scenario& scenario = trial.scenario;
    const int odd = scenario.workers - 1;
    const auto refused = [&](const std::string& what, const Scenario& wrong,
                             const std::vector<std::string>& words) {
        const std::vector<RankRecording> lives = trial.play(wrong);
        for (std::size_t i = 0; i < lives.size(); ++i) {
            bool says = !lives[i].refused.empty();
            for (const std::string& word : words)
                says = says && lives[i].refused.find(word) != std::string::npos;
            trial.expect(says, 1, [&] {
                return "worker " + std::to_string(i) +
                       (lives[i].refused.empty()
                            ? " begins, though " + what
                            : " does not say that " + what + ": '" + lives[i].refused + "'");
            });
        }
    };
    const auto of_last = [&](const std::function<void(Settings&)>& change) {
        Scenario wrong = scenario;
        wrong.settings_of = [odd, change](int worker, Settings settings) {
            if (worker == odd)
                change(settings);
            return settings;
        };
        return wrong;
    };
    if (scenario.workers > 1) {
        const std::string rank = "rank " + std::to_string(odd);
        // Settings that some inner optimizers do not use are compared all the same.
        // allow_unstable only allows what all do.
        for (const std::string& setting : gate::names_of_settings(scenario.settings, {"allow_unstable"}))
            refused(rank + " has another " + setting,
                    of_last([&setting](Settings& settings) { gate::change_setting(settings, setting); }),
                    {rank, setting});
        refused(rank + " has another list of edges", of_last([](Settings& s) {
                    s.given.push_back({{0, 1, 0.125}});
                }),
                {rank, "edges"});
        // Explicit edges that differ in one weight, in one round, or in an end.
        Scenario with_edges = of_last([seed = scenario.settings.seed](Settings& s) {
            Edge& edge = s.given[seed % 2].front();
            if (seed % 4 == 0)
                s.given.pop_back();
            else if (seed % 4 == 3) // the same edges, a round later
                s.given.insert(s.given.begin(), Graph{});
            else if (seed % 4 == 1 && edge.b > 1)
                --edge.b;
            else
                edge.weight *= 0.5;
        });
        with_edges.settings.law = Law::given;
        with_edges.settings.given = {{{0, odd, 0.5}}, {{0, odd, 0.25}}};
        with_edges.settings.allow_unstable = true;
        refused(rank + " has another edge", with_edges, {rank, "edges"});
        Scenario wrong = scenario;
        wrong.start_of = [odd](int worker, Floats start) {
            if (worker == odd && !start.empty())
                start.back() += 1.0F;
            return start;
        };
        if (scenario.size > 0)
            refused(rank + " starts from other parameters", wrong, {rank, "parameters"});
        Scenario unstable = scenario;
        unstable.settings.allow_unstable = false;
        unstable.settings.law = Law::pairs;
        unstable.settings.alpha = 1.0;
        unstable.settings.gamma = 0.9375;
        unstable.settings.momentum = Momentum::local;
        if (scenario.workers > 2)
            refused("it diverges", unstable, {"gamma"});
        for (const Graph& edges : {Graph{{0, 0}}, Graph{{0, 1}, {1, 0}}, Graph{{0, 1}, {0, 2}, {1, 0}},
                                   Graph{{0, 1, 0.5}, {1, 0, 0.25}}, Graph{{0, scenario.workers}}}) {
            Scenario given = scenario;
            given.settings.law = Law::given;
            given.settings.given = {edges};
            refused("an edge is none", given, {"edge"});
        }
    }
    if (scenario.size > 0) {
        using Limits = std::numeric_limits<float>;
        const std::vector<float> values{Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()};
        const float value = values[scenario.settings.seed % values.size()];
        const auto place = static_cast<std::size_t>(trial.run.steps * 7 % scenario.size);
        Scenario infinite = scenario;
        infinite.start_of = [value, place](int, Floats start) {
            start[place] = value;
            return start;
        };
        refused("a parameter is not finite", infinite, {"parameters"});
    }
    const auto [setting, all] =
        gate::impossible_settings(scenario.settings, static_cast<std::uint64_t>(trial.run.seed));
    for (const Settings& settings : all) {
        Scenario impossible = scenario;
        impossible.settings = settings;
        refused(setting + " is impossible", impossible, {setting});
    }
}

/// Whether a run begins, and begins again, has to follow from whether disagreement grows.
void begins_if_stable(Trial& trial, Settings settings, bool stable) {
    settings.allow_unstable = false;
    Scenario scenario = trial.scenario;
    scenario.settings = std::move(settings);
    scenario.rounds = 1;
    const auto judge = [&](const RankRecording& life, bool begins, const std::string& again) {
        trial.expect(begins == stable, 1, [&] {
            return "with alpha " + shortest(scenario.settings.alpha) + ", gamma " +
                   shortest(scenario.settings.gamma) +
                   (stable
                        ? " disagreement shrinks, and a worker does not begin" + again + ": " + life.refused
                        : " disagreement grows, and all begin" + again);
        });
    };
    for (const RankRecording& life : trial.play(scenario))
        judge(life, life.refused.empty(), "");
    if (!trial.candidate.names_differences()) // others may look only when a run begins
        return;
    // They begin again from a checkpoint of a run that was allowed to diverge.
    scenario.again = scenario.settings;
    scenario.settings.allow_unstable = true;
    scenario.rounds = 2;
    scenario.restart = 1;
    const std::vector<RankRecording> lives = trial.play(scenario);
    if (any_ended(lives)) // it saves nothing
        return;
    for (const RankRecording& life : lives)
        judge(life, life.restarted, " again");
}

/// The greatest alpha with which disagreement shrinks; 0 if even a small one is too large.
double border_of_alpha(Settings settings, int workers) {
    const auto shrinks = [&](double alpha) {
        settings.alpha = alpha;
        return by_hand::growth(settings, workers) < 1.0;
    };
    double good = 1.0 / 16;
    double bad = 16.0;
    if (!shrinks(good))
        return 0.0;
    for (int halving = 0; halving < 16; ++halving) {
        const double middle = std::sqrt(good * bad);
        (shrinks(middle) ? good : bad) = middle;
    }
    return good;
}

// 15, 18. A run that diverges does not begin, and one that does not diverge does; tried close to the border
// between them.
void borders(Trial& trial) {
    const Settings& settings = trial.scenario.settings;
    const int workers = trial.scenario.workers;
    Settings near = settings;
    if (workers == 1) {
        near.alpha = 100.0;
        return begins_if_stable(trial, near, true);
    }
    const double border = border_of_alpha(settings, workers);
    trial.judged.kind(border > 0.0, "a border");
    trial.judged.kind(border <= 0.0, "no border");
    for (const double factor : {0.97, 1.03}) {
        near.alpha = border * factor;
        const double growth = by_hand::growth(near, workers);
        if (border == 0.0 || std::abs(growth - 1.0) < 0.004) // growth follows few rounds
            continue;
        trial.judged.kind(growth < 1.0, "just stable");
        trial.judged.kind(growth >= 1.0, "just unstable");
        begins_if_stable(trial, near, growth < 1.0);
        if (settings.law != Law::ring && settings.law != Law::complete)
            continue;
        // The same with explicit graphs: a stable one, then this one with half the weight on each edge and
        // twice alpha.
        Settings given = near;
        given.alpha *= 2;
        given.law = Law::given;
        given.given.assign(2, by_hand::graph_of(near, 1, workers));
        for (Edge& edge : given.given.back())
            edge.weight *= 0.5;
        for (Edge& edge : given.given.front())
            edge.weight *= 0.0625;
        begins_if_stable(trial, given, growth < 1.0);
        if (settings.law != Law::complete)
            continue;
        // A star of such edges has the same greatest eigenvalue, whoever is its middle.
        const int middle = static_cast<int>(trial.run.seed % workers);
        given = near;
        given.law = Law::given;
        given.given.assign(1, {});
        for (int other = 0; other < workers; ++other)
            if (other != middle)
                given.given.front().push_back(
                    {std::min(middle, other), std::max(middle, other), 2.0 / workers});
        begins_if_stable(trial, given, growth < 1.0);
    }
}

/// Changes the case to one with a law, one parameter and one inner step.
Case under_a_law(Case run) {
    run = without_restart(run);
    if (run.law == Law::given || run.law == Law::none)
        run.law = run.law == Law::given ? Law::ring : Law::complete;
    run.size = 1;
    run.steps = 1;
    return run;
}

} // namespace

std::vector<gate::Property> setting_properties() {
    return {
        property(17, "settings", "Each setting matters: another value gives other bits.", settings_matter,
                 {{"neighbours", 60}}, mattering),
        property(18, "refusal", "What cannot go well does not begin on any rank, and says why.", refusals,
                 {"several ranks"}, without_restart),
        property(18, "refusal.unstable",
                 "What diverges does not begin, nor begin again; what does not does, close to the border.",
                 borders, {"just stable", "just unstable"}, under_a_law)};
}

} // namespace truestep::properties::gasloc
