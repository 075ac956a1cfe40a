// Every setting matters, and those that cannot go well are refused.
#include "family.hpp"

#include <algorithm>
#include <functional>

#include "by_hand.hpp"

namespace scape::gasloc {

namespace {

using Floats = std::vector<float>;

// 17. Each setting matters.
void settings_matter(Trial& trial) {
    Scenario& scenario = trial.scenario;
    trial.lives = trial.play(scenario);
    const auto differs = [&](const char* what, const Scenario& other) {
        const std::vector<Life> lives = trial.play(other);
        bool any = false;
        for (std::size_t i = 0; i < lives.size(); ++i)
            for (const auto& entry : lives[i].rounds) {
                const Index round = entry.first;
                const Seen& seen = entry.second;
                const auto found = trial.lives[i].rounds.find(round);
                any = any || found == trial.lives[i].rounds.end() ||
                      found->second.state.theta != seen.state.theta;
            }
        told(trial, any, scenario.rounds,
             [&] { return std::string("another ") + what + " gives the same bits"; });
    };
    const auto with = [&](const std::function<void(Scenario&)>& change) {
        Scenario other = scenario;
        change(other);
        return other;
    };
    // One worker alone has no edges, and two always the same.
    const bool meet = scenario.workers > 1;
    if (meet)
        differs("alpha", with([](Scenario& s) { s.settings.alpha *= 0.75; }));
    differs("gamma", with([](Scenario& s) { s.settings.gamma = s.settings.gamma == 0.25 ? 0.5 : 0.25; }));
    differs("eta", with([](Scenario& s) { s.settings.eta *= 0.75; }));
    if (scenario.workers > 2)
        differs("seed of the graph", with([](Scenario& s) {
                    // One that leads to other pairs in the first round.
                    const Graph graph = by_hand::graph_of(s.settings, 1, s.workers);
                    while (by_hand::graph_of(s.settings, 1, s.workers) == graph)
                        ++s.settings.seed;
                }));
    if (meet)
        differs("weight of the edges", with([](Scenario& s) {
                    for (Index round = 1; round <= s.rounds; ++round) {
                        s.settings.given.push_back(by_hand::graph_of(s.settings, round, s.workers));
                        for (Edge& edge : s.settings.given.back())
                            edge.weight *= 0.5;
                    }
                    s.settings.law = Law::given;
                }));
    differs("number of inner steps", with([](Scenario& s) {
                s.steps = [steps = s.steps](int worker, Index round) { return steps(worker, round) + 1; };
            }));
    differs("learning rate", with([](Scenario& s) {
                s.learning_rate = [rate = s.learning_rate](Index round, Index step) {
                    return rate(round, step) * 0.75;
                };
            }));
    differs("learning rate of the second inner step", with([](Scenario& s) {
                s.learning_rate = [rate = s.learning_rate](Index round, Index step) {
                    return rate(round, step) * (step == 2 ? 0.5 : 1.0);
                };
            }));
    differs("weight decay",
            with([](Scenario& s) { s.settings.hyper.weight_decay = s.settings.hyper.weight_decay + 0.5; }));
    if (meet)
        differs("placement of the momentum", with([](Scenario& s) {
                    s.settings.momentum =
                        s.settings.momentum == Momentum::local ? Momentum::gossiped : Momentum::local;
                }));
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

// 18. What cannot go well does not begin: on any rank, and each says why.
void refusals(Trial& trial) {
    Scenario& scenario = trial.scenario;
    const int odd = scenario.workers - 1;
    const auto refused = [&](const std::string& what, const Scenario& wrong,
                             const std::vector<std::string>& words) {
        const std::vector<Life> lives = trial.play(wrong);
        for (std::size_t i = 0; i < lives.size(); ++i) {
            bool says = !lives[i].refused.empty();
            for (const std::string& word : words)
                says = says && lives[i].refused.find(word) != std::string::npos;
            told(trial, says, 1, [&] {
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
        refused(rank + " has another alpha", of_last([](Settings& s) { s.alpha += 0.125; }),
                {rank, "alpha"});
        refused(rank + " has another gamma", of_last([](Settings& s) { s.gamma = 0.0625; }),
                {rank, "gamma"});
        refused(rank + " has another eta", of_last([](Settings& s) { s.eta *= 2; }), {rank, "eta"});
        refused(rank + " has another law",
                of_last([](Settings& s) { s.law = s.law == Law::none ? Law::pairs : Law::none; }),
                {rank, "law"});
        refused(rank + " has another seed", of_last([](Settings& s) { ++s.seed; }), {rank, "seed"});
        refused(rank + " has another inner optimizer",
                of_last([](Settings& s) { s.inner = s.inner == Inner::sgd ? Inner::adamw : Inner::sgd; }),
                {rank, "inner"});
        refused(rank + " has another weight decay",
                of_last([](Settings& s) { s.hyper.weight_decay += 0.5; }), {rank, "weight_decay"});
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
        for (const Graph& edges : {Graph{{0, 0}}, Graph{{0, 1}, {1, 0}}, Graph{{0, scenario.workers}}}) {
            Scenario given = scenario;
            given.settings.law = Law::given;
            given.settings.given = {edges};
            refused("an edge is none", given, {"edge"});
        }
    }
    Scenario negative = scenario;
    negative.settings.eta = -1.0;
    refused("eta is negative", negative, {"eta"});
}

} // namespace

std::vector<gate::Property> setting_properties() {
    return {property(17, "settings", "Each setting matters: another value gives other bits.",
                     settings_matter, {{"neighbours", 60}}, mattering),
            property(18, "refusal", "What cannot go well does not begin on any rank, and says why.",
                     refusals, {{"several ranks", 60}}, without_restart)};
}

} // namespace scape::gasloc
