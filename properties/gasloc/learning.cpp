// How implementations of GASLoC are trained (section 33).
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "parts.hpp"
#include "trial.hpp"

namespace truestep::properties::gasloc {

namespace {

using gate::GradientSource;
using gate::Learning;
using Floats = std::vector<float>;

constexpr Index round_steps = 2;

/// The number of inner steps that a worker takes in a round: sometimes one or none, since workers differ in
/// speed.
Index taken(int worker, Index round) {
    constexpr Index of[]{0, 2, 2, 2, 1, 2, 2, 2};
    return of[(round + worker) % 8];
}

const char* const given_name = "edges of different weights";

Learning::Setting setting_of(const char* name, const std::string& edges, int ranks) {
    return {.name = name,
            .words = "adamw, 2 inner steps a round, " + edges + ", eta 0.75, alpha 0.8, gamma 0.3",
            .ranks = ranks,
            .hyper = {},
            .learning_rate = 0.02};
}

/// Graphs of four workers: in the first round worker 0 has three neighbours, in the second worker 1 has two
/// and worker 0 none, and in the third all meet.
std::vector<Graph> edges() {
    return {{{0, 1, 0.5}, {0, 2, 0.25}, {0, 3, 0.25}},
            {{1, 2, 0.75}, {1, 3, 0.25}},
            {{0, 1, 0.25}, {0, 2, 0.25}, {0, 3, 0.25}, {1, 2, 0.25}, {1, 3, 0.25}, {2, 3, 0.25}}};
}

std::string setting_for(const std::string& shows) {
    for (const char* needs : {"two neighbours", "three of them", "other than 1."})
        if (shows.find(needs) != std::string::npos && shows.find("eta") == std::string::npos)
            return given_name;
    return "";
}

Settings settings_of(const Learning::Setting& setting) {
    Settings settings;
    settings.inner = Inner::adamw;
    settings.hyper = setting.hyper;
    settings.eta = 0.75;
    settings.alpha = 0.8;
    settings.gamma = 0.3;
    if (setting.name == given_name) {
        settings.law = Law::given;
        settings.given = edges();
    }
    return settings;
}

/// Connects a worker, which takes a round's gradients at once, with the training, which makes them step by
/// step. All gradients of a round are taken at the worker's parameters at the end of the last one.
class Rounds {
  public:
    Rounds(const Learning::LearningTask& lesson, GradientSource& live)
        : lesson_(lesson), live_(live), gradients_(static_cast<std::size_t>(lesson.setting.ranks)) {}

    [[nodiscard]] Scenario scenario(bool restarts) {
        Scenario scenario;
        scenario.settings = settings_of(lesson_.setting);
        scenario.workers = lesson_.setting.ranks;
        scenario.size = lesson_.layout.size();
        scenario.rounds = (lesson_.steps + round_steps - 1) / round_steps;
        scenario.start = lesson_.parameters;
        scenario.steps = [last = lesson_.steps](int worker, Index round) {
            return std::min(taken(worker, round), last - (round - 1) * round_steps);
        };
        scenario.gradient = [this](int worker, Index /*round*/, Index step) {
            return gradients_[static_cast<std::size_t>(worker)].at(static_cast<std::size_t>(step - 1));
        };
        scenario.learning_rate = [this](Index round, Index step) {
            return lesson_.learning_rate((round - 1) * round_steps + step);
        };
        if (restarts && lesson_.restart_at > round_steps) {
            scenario.restart = (lesson_.restart_at - 1) / round_steps;
            scenario.to = scenario.workers;
        }
        scenario.watch = [this](int worker, Index /*round*/, const State& state) { look(worker, state); };
        return scenario;
    }

  private:
    void look(int worker, const State& state) {
        for (const auto* part : {&state.theta, &state.before, &state.m, &state.v})
            live_.seen(worker, std::span<const float>(*part));
        auto& gradients = gradients_[static_cast<std::size_t>(worker)];
        gradients.clear();
        for (Index step = 0; step < round_steps; ++step) {
            const GradientSource::Step next = live_.next(worker, state.theta);
            if (next.ends)
                break;
            gradients.push_back(gate::sum_of(next.parts));
        }
    }

    const Learning::LearningTask& lesson_;
    GradientSource& live_;
    std::vector<std::vector<Floats>> gradients_; ///< for the coming round, by worker
};

/// The reference as one of the trained implementations.
class ReferenceWorkers final : public Implementation {
  public:
    std::string name() const override { return "reference"; }
    std::string communicator() const override { return "-"; }
    verify::LevelKind level() const override { return verify::LevelKind::exact; }
    bool takes(int /*workers*/) const override { return true; }
    [[nodiscard]] bool in_process() const override { return true; }
    [[nodiscard]] std::vector<RankRecording> run(const Scenario& scenario) const override {
        return expected_lives(scenario);
    }
};

void train_candidate(const gate::Implementation& implementation, const Learning::LearningTask& lesson,
                     GradientSource& live) {
    const auto& candidate = dynamic_cast<const Implementation&>(implementation);
    Rounds rounds(lesson, live);
    const gate::Unsupported unsupported = candidate.unsupported();
    const bool restarts = !unsupported.contains("restart") && !unsupported.contains("restart.same");
    const std::vector<RankRecording> lives = candidate.run(rounds.scenario(restarts));
    for (std::size_t worker = 0; worker < lives.size(); ++worker) {
        const RankRecording& life = lives[worker];
        if (!life.refused.empty())
            throw std::runtime_error("worker " + std::to_string(worker) +
                                     " did not begin: " + life.refused);
        if (life.ended() > 0)
            throw std::runtime_error("worker " + std::to_string(worker) + " ended in round " +
                                     std::to_string(life.ended()) + ": " + life.reason);
    }
}

} // namespace

Learning learning() {
    Learning learning;
    learning.settings = {setting_of("", "random pairs", 3),
                         setting_of(given_name, "given edges of different weights", 4)};
    learning.base = std::make_shared<ReferenceWorkers>();
    learning.learns = [](const gate::Implementation&) { return true; };
    learning.train = train_candidate;
    learning.setting_of = setting_for;
    return learning;
}

} // namespace truestep::properties::gasloc
