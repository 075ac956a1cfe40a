// A program of any language as the workers of GASLoC: the messages of docs/program-protocol.md.

#include <algorithm>
#include <utility>

#include <truestep/gate/program_case.hpp>
#include <truestep/gate/program_implementation.hpp>
#include <truestep/trace/config.hpp>

#include "implementation.hpp"
#include "parts.hpp"

namespace truestep::properties::gasloc {

namespace {

namespace fs = std::filesystem;
using gate::Programs;
using Json = Programs::Json;

/// The parts that this run has and the program shows.
std::vector<StatePart> views_of(const Settings& settings, const VisibleState& visible) {
    const State has = first_state(settings, std::vector{0.0F});
    std::vector<StatePart> views;
    for (const StatePart& part : state_parts)
        if (part.is_in(visible) && !(has.*part.values).empty())
            views.push_back(part);
    return views;
}

Json edges_of(const Graph& graph) {
    Json edges = Json::array();
    for (const Edge& edge : graph)
        edges.push_back({edge.a, edge.b, edge.weight});
    return edges;
}

Json case_message(const Scenario& scenario, int workers) {
    nlohmann::ordered_json message{{"do", "case"}, {"workers", workers}, {"size", scenario.size}};
    visit_settings(scenario.settings, [&message](const std::string& key, const auto& value, auto...) {
        if (key != "allow_unstable") // a case may diverge
            trace::write_setting(message, key, value);
    });
    if (scenario.settings.law == Law::given)
        for (const Graph& graph : scenario.settings.given)
            message["graphs"].push_back(edges_of(graph));
    return message;
}

/// Runs a scenario on the program's processes.
class ProgramRounds {
  public:
    ProgramRounds(Programs& programs, const VisibleState& visible, const Scenario& scenario)
        : session_(programs, scenario.workers), scenario_(scenario),
          views_(views_of(scenario.settings, visible)),
          lives_(static_cast<std::size_t>(std::max(scenario.workers, scenario.to))) {}

    std::vector<RankRecording> run(const fs::path& folder);

  private:
    [[nodiscard]] RankRecording& life(int rank) { return lives_[static_cast<std::size_t>(rank)]; }
    void begin_case(const std::vector<float>& parameters);
    void restart(const fs::path& folder);
    [[nodiscard]] Json round_message(int rank, Index round, const Json& edges);
    /// Returns false when a worker has ended.
    bool make_round(Index round);
    std::vector<State> look();

    gate::ProgramCase session_;
    const Scenario& scenario_;
    std::vector<StatePart> views_;
    std::vector<RankRecording> lives_;
};

std::vector<RankRecording> ProgramRounds::run(const fs::path& folder) {
    begin_case(scenario_.start);
    if (scenario_.watch)
        for (int rank = 0; rank < session_.workers(); ++rank)
            scenario_.watch(rank, 0, first_state(scenario_.settings, scenario_.start));
    bool all_go_on = true;
    for (Index round = 1; round <= scenario_.rounds; ++round) {
        if (scenario_.restart > 0 && round == scenario_.restart + 1) {
            if (!all_go_on)
                break;
            restart(folder);
        }
        all_go_on = make_round(round) && all_go_on;
    }
    return std::move(lives_);
}

void ProgramRounds::begin_case(const std::vector<float>& parameters) {
    const Json common = case_message(scenario_, session_.workers());
    const auto message = [&](int rank) {
        Json of_rank = common;
        of_rank["rank"] = rank;
        of_rank["parameters"] = session_.write(rank, "initial", parameters);
        return of_rank;
    };
    static_cast<void>(session_.ask(message, {"case"}));
}

void ProgramRounds::restart(const fs::path& folder) {
    session_.with_folder("save", folder);
    session_.move_to(scenario_.workers_in(scenario_.restart + 1));
    // Starts from zeros, so that restoring has to replace them.
    begin_case(std::vector<float>(scenario_.start.size(), 0.0F));
    session_.with_folder("restore", folder);
    std::vector<State> begun = look();
    for (int rank = 0; rank < session_.workers(); ++rank) {
        life(rank).begun = std::move(begun[static_cast<std::size_t>(rank)]);
        life(rank).restarted = true;
    }
}

Json ProgramRounds::round_message(int rank, Index round, const Json& edges) {
    Json gradients = Json::array();
    Json rates = Json::array();
    for (Index step = 1; step <= (life(rank).ended() > 0 ? 0 : scenario_.steps(rank, round)); ++step) {
        gradients.push_back(
            session_.write(rank, "gradient" + std::to_string(step), scenario_.gradient(rank, round, step)));
        rates.push_back(scenario_.learning_rate(round, step));
    }
    return {{"do", "round"},
            {"round", round},
            {"edges", edges},
            {"learning_rates", std::move(rates)},
            {"gradients", std::move(gradients)}};
}

bool ProgramRounds::make_round(Index round) {
    const Json edges = edges_of(graph_of(scenario_.settings, round, session_.workers()));
    const std::vector<Json> answers = session_.ask(
        [&](int rank) { return round_message(rank, round, edges); }, {"round", "halted", "alone"});
    std::vector<State> states = look();
    bool all_go_on = true;
    for (int rank = 0; rank < session_.workers(); ++rank) {
        const Json& answer = answers[static_cast<std::size_t>(rank)];
        State& state = states[static_cast<std::size_t>(rank)];
        const bool goes_on = answer["did"] == "round";
        all_go_on = all_go_on && goes_on;
        if (life(rank).ended() > 0) {
            if (goes_on)
                session_.fail(rank, "continues after it has ended");
            continue;
        }
        if (const auto skipped = answer.find("skipped"); skipped != answer.end() && !skipped->is_boolean())
            session_.fail(rank, "made a round, but \"skipped\" must be true or false");
        if (!goes_on) {
            (answer["did"] == "halted" ? life(rank).halted : life(rank).left_alone) = round;
            life(rank).reason = gate::text_of(answer);
        } else if (scenario_.watch) {
            scenario_.watch(rank, round, state);
        } else {
            life(rank).rounds[round] = {std::move(state), answer.value("skipped", false), {}};
        }
    }
    return all_go_on;
}

std::vector<State> ProgramRounds::look() {
    std::vector<std::string> names;
    for (const StatePart& view : views_)
        names.emplace_back(view.name);
    std::vector<State> states;
    for (const Json& answer : session_.view(names)) {
        const int rank = static_cast<int>(states.size());
        State& state = states.emplace_back();
        state.rounds = session_.number(rank, answer, "rounds", "showed itself");
        state.s = session_.number(rank, answer, "inner_steps", "showed itself");
        for (const StatePart& view : views_)
            state.*view.values =
                session_.take<float>(rank, view.name, static_cast<std::size_t>(scenario_.size));
    }
    return states;
}

/// Whether the property looks at more than the program shows. Beside theta, properties that are not listed
/// here compare what there is.
bool lacks(const std::string& property, const VisibleState& visible) {
    const bool of_before = property == "mean" || property == "contraction";
    const bool of_moments = property == "inner";
    return (of_before && !visible.before) ||
           (of_moments && !(visible.first_moment && visible.second_moment));
}

VisibleState visible_of(const gate::ProgramHello& hello) {
    return {hello.shows.contains("before"), hello.shows.contains("first_moment"),
            hello.shows.contains("second_moment")};
}

/// Leaves out what the gate cannot see or ask of processes that talk by themselves.
void leave_out_what_is_not_seen(const Json& /*answer*/, gate::ProgramHello& hello) {
    const VisibleState visible = visible_of(hello);
    hello.without({"traffic", "delay", "no_barrier"},
                  "a program's ranks talk by their own means, which the gate does not see");
    hello.without({"refusal", "restart.settings"}, "a program is given settings that all ranks have alike");
    hello.without({"restore"}, "a program restores between rounds alone");
    if (visible.all())
        return;
    // At REL the next round is judged from the whole recorded state of this one.
    const bool exact = hello.level == verify::LevelKind::exact;
    for (const gate::Property& property : properties())
        if (!exact || lacks(property.name, visible))
            hello.without({property.name},
                          "the program does not show all of before, first_moment and second_moment");
}

gate::ProgramSystem programs_of_gasloc() {
    return {"gasloc",
            1,
            {"parameters", "before", "first_moment", "second_moment"},
            gate::names_of(properties()),
            leave_out_what_is_not_seen};
}

class ProgramCandidate final : public gate::ProgramImplementation<Implementation> {
  public:
    ProgramCandidate(const gate::ProgramSettings& settings, const std::shared_ptr<const gate::Group>& group)
        : ProgramImplementation(settings, group, programs_of_gasloc()) {}

    bool in_process() const override { return false; }
    VisibleState visible() const override { return visible_of(hello()); }

    std::vector<RankRecording> run(const Scenario& scenario) const override {
        return ProgramRounds(programs(), visible(), scenario)
            .run(gate::empty_folder(group(), "gasloc-restart"));
    }
};

} // namespace

std::shared_ptr<const gate::Implementation>
program_candidate(const gate::ProgramSettings& settings, const std::shared_ptr<const gate::Group>& group) {
    return std::make_shared<ProgramCandidate>(settings, group);
}

} // namespace truestep::properties::gasloc
