// A program of any language as workers of GASLoC: the messages of docs/program-protocol.md.
#include "program.hpp"

#include <algorithm>
#include <utility>

#include <truestep/gate/program_hello.hpp>
#include <truestep/problem/error.hpp>

#include "properties.hpp"

namespace truestep::gasloc {

namespace {

namespace fs = std::filesystem;
using gate::Programs;
using Json = Programs::Json;

/// The parts of a state as they are asked for; theta is what has to be visible.
struct View {
    const char* name;
    std::vector<float> State::*part;
};
constexpr View theta_view{"parameters", &State::theta};
constexpr View other_views[]{
    {"before", &State::before}, {"first_moment", &State::m}, {"second_moment", &State::v}};

/// Those that this run has and the program shows.
std::vector<View> views_of(const Settings& settings, const Visible& visible) {
    std::vector<View> views{theta_view};
    if (visible.before)
        views.push_back(other_views[0]);
    if (visible.first_moment && settings.inner != Inner::sgd)
        views.push_back(other_views[1]);
    if (visible.second_moment && settings.inner == Inner::adamw)
        views.push_back(other_views[2]);
    return views;
}

Json case_message(const Scenario& scenario, int workers) {
    const Settings& settings = scenario.settings;
    return {{"do", "case"},
            {"workers", workers},
            {"size", scenario.size},
            {"inner", name(settings.inner)},
            {"beta1", settings.hyper.beta1},
            {"beta2", settings.hyper.beta2},
            {"epsilon", settings.hyper.epsilon},
            {"weight_decay", settings.hyper.weight_decay},
            {"bias_correction", problem::name(settings.hyper.bias_correction)},
            {"eta", settings.eta},
            {"alpha", settings.alpha},
            {"gamma", settings.gamma},
            {"momentum", name(settings.momentum)},
            {"law", name(settings.law)},
            {"seed", settings.seed}};
}

/// A scenario on its way through the program's processes.
class ProgramRounds {
  public:
    ProgramRounds(Programs& programs, const Visible& visible, const Scenario& scenario)
        : programs_(programs), scenario_(scenario), views_(views_of(scenario.settings, visible)),
          workers_(scenario.workers), lives_(static_cast<std::size_t>(std::max(workers_, scenario.to))) {}

    std::vector<Life> run(const fs::path& folder);

  private:
    [[nodiscard]] fs::path file(int rank, const std::string& what) {
        return programs_.folder(workers_) / ("rank" + std::to_string(rank) + "." + what);
    }
    std::vector<Json> ask(std::vector<Json> messages, const std::vector<std::string>& expected) {
        return programs_.ask(workers_, std::move(messages), expected);
    }
    [[nodiscard]] Life& life(int rank) { return lives_[static_cast<std::size_t>(rank)]; }
    std::string write(int rank, const std::string& what, const std::vector<float>& values);
    void begin_case(const std::vector<float>& parameters);
    void with_folder(const char* what, const fs::path& folder);
    void restart(const fs::path& folder);
    [[nodiscard]] Json round_message(int rank, Index round, const Json& edges);
    /// False when a worker has ended.
    bool make_round(Index round);
    void keep(int rank, Index round, State state, bool skipped);
    void end(int rank, Index round, const Json& answer);
    std::vector<State> look();

    Programs& programs_;
    const Scenario& scenario_;
    std::vector<View> views_;
    int workers_; ///< of this part of the run
    std::vector<Life> lives_;
};

std::vector<Life> ProgramRounds::run(const fs::path& folder) {
    begin_case(scenario_.start);
    if (scenario_.watch)
        for (int rank = 0; rank < workers_; ++rank)
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

std::string ProgramRounds::write(int rank, const std::string& what, const std::vector<float>& values) {
    const fs::path path = file(rank, what);
    gate::write_vector(path, values.data(), values.size() * sizeof(float));
    return path.string();
}

void ProgramRounds::begin_case(const std::vector<float>& parameters) {
    static_cast<void>(programs_.greeted(workers_)); // so that there is a folder
    const Json common = case_message(scenario_, workers_);
    std::vector<Json> messages;
    for (int rank = 0; rank < workers_; ++rank) {
        Json message = common;
        message["rank"] = rank;
        message["parameters"] = write(rank, "initial", parameters);
        messages.push_back(std::move(message));
    }
    static_cast<void>(ask(std::move(messages), {"case"}));
}

void ProgramRounds::with_folder(const char* what, const fs::path& folder) {
    const Json message{{"do", what}, {"folder", folder.string()}};
    static_cast<void>(ask(std::vector<Json>(static_cast<std::size_t>(workers_), message), {what}));
}

void ProgramRounds::restart(const fs::path& folder) {
    with_folder("save", folder);
    workers_ = scenario_.workers_in(scenario_.restart + 1);
    // What is restored has to replace it.
    begin_case(std::vector<float>(scenario_.start.size(), 0.0F));
    with_folder("restore", folder);
    std::vector<State> begun = look();
    for (int rank = 0; rank < workers_; ++rank) {
        life(rank).begun = std::move(begun[static_cast<std::size_t>(rank)]);
        life(rank).restarted = true;
    }
}

Json ProgramRounds::round_message(int rank, Index round, const Json& edges) {
    Json gradients = Json::array();
    Json rates = Json::array();
    const bool ended = life(rank).halted > 0 || life(rank).left_alone > 0;
    for (Index step = 1; step <= (ended ? 0 : scenario_.steps(rank, round)); ++step) {
        gradients.push_back(
            write(rank, "gradient" + std::to_string(step), scenario_.gradient(rank, round, step)));
        rates.push_back(scenario_.learning_rate(round, step));
    }
    return {{"do", "round"},
            {"round", round},
            {"edges", edges},
            {"learning_rates", std::move(rates)},
            {"gradients", std::move(gradients)}};
}

bool ProgramRounds::make_round(Index round) {
    Json edges = Json::array();
    for (const Edge& edge : graph_of(scenario_.settings, round, workers_))
        edges.push_back({edge.a, edge.b, edge.weight});
    std::vector<Json> messages;
    messages.reserve(static_cast<std::size_t>(workers_));
    for (int rank = 0; rank < workers_; ++rank)
        messages.push_back(round_message(rank, round, edges));
    const std::vector<Json> answers = ask(std::move(messages), {"round", "halted", "alone"});
    std::vector<State> states = look();
    bool all_go_on = true;
    for (int rank = 0; rank < workers_; ++rank) {
        const Json& answer = answers[static_cast<std::size_t>(rank)];
        Life& of_rank = life(rank);
        if (of_rank.halted == 0 && of_rank.left_alone == 0) {
            end(rank, round, answer);
            if (answer["did"] == "round")
                keep(rank, round, std::move(states[static_cast<std::size_t>(rank)]),
                     answer.value("skipped", false));
        } else if (answer["did"] == "round") {
            programs_.fail(workers_, rank, "goes on after it has ended");
        }
        all_go_on = all_go_on && answer["did"] == "round";
    }
    return all_go_on;
}

void ProgramRounds::keep(int rank, Index round, State state, bool skipped) {
    if (scenario_.watch)
        scenario_.watch(rank, round, state);
    else
        life(rank).rounds[round] = {std::move(state), skipped, {}};
}

void ProgramRounds::end(int rank, Index round, const Json& answer) {
    if (const auto skipped = answer.find("skipped"); skipped != answer.end() && !skipped->is_boolean())
        programs_.fail(workers_, rank, "made a round, but \"skipped\" must be true or false");
    if (answer["did"] == "round")
        return;
    (answer["did"] == "halted" ? life(rank).halted : life(rank).left_alone) = round;
    life(rank).reason = gate::text_of(answer);
}

std::vector<State> ProgramRounds::look() {
    std::vector<Json> messages;
    for (int rank = 0; rank < workers_; ++rank) {
        Json into = Json::object();
        for (const View& view : views_)
            into[view.name] = file(rank, view.name).string();
        messages.push_back({{"do", "view"}, {"into", std::move(into)}});
    }
    const std::vector<Json> answers = ask(std::move(messages), {"view"});
    std::vector<State> states(static_cast<std::size_t>(workers_));
    for (int rank = 0; rank < workers_; ++rank) {
        State& state = states[static_cast<std::size_t>(rank)];
        try {
            state.rounds = gate::whole_number(answers[static_cast<std::size_t>(rank)], "rounds");
            state.s = gate::whole_number(answers[static_cast<std::size_t>(rank)], "inner_steps");
        } catch (const Error& error) {
            programs_.fail(workers_, rank, std::string("showed itself, but ") + error.what());
        }
        for (const View& view : views_) {
            std::vector<float>& values = state.*view.part;
            values.resize(static_cast<std::size_t>(scenario_.size));
            const fs::path path = file(rank, view.name);
            const std::string fault = gate::take_vector(path, values.data(), values.size() * sizeof(float));
            if (!fault.empty())
                programs_.fail(workers_, rank,
                               std::string("left no '") + view.name + "': " + path.string() + " " + fault);
        }
    }
    return states;
}

/// Of each property what it looks at beside theta; one that is not here compares what there is.
bool lacks(const std::string& property, const Visible& visible) {
    const bool of_before = property == "mean" || property == "contraction";
    const bool of_moments = property == "inner";
    return (of_before && !visible.before) ||
           (of_moments && !(visible.first_moment && visible.second_moment));
}

/// What the gate cannot see or ask of processes that talk by themselves.
void leave_out_what_is_not_seen(gate::ProgramHello& hello, const Visible& visible) {
    const char* const unseen = "a program's ranks talk by their own means, which the gate does not see";
    for (const char* property : {"traffic", "delay", "no_barrier"})
        hello.left_out.try_emplace(property, unseen);
    hello.left_out.try_emplace("refusal", "a program is given settings that all ranks have alike");
    if (visible.all())
        return;
    // At REL the next round is judged from all that was seen of this one.
    const bool exact = hello.level == verify::LevelKind::exact;
    for (const gate::Property& property : properties())
        if (!exact || lacks(property.name, visible))
            hello.left_out.try_emplace(property.name, "the program does not show all of before, "
                                                      "first_moment and second_moment");
}

class ProgramCandidate final : public Candidate {
  public:
    ProgramCandidate(const gate::ProgramSettings& settings, const std::shared_ptr<const gate::Group>& group)
        : group_(group),
          programs_(settings, {{"do", "hello"}, {"protocol", gate::program_protocol}, {"system", "gasloc"}},
                    *group) {
        std::vector<std::string> names;
        for (const gate::Property& property : properties())
            names.push_back(property.name);
        const Json& answer = programs_.greeted(1);
        try {
            hello_ = gate::program_hello(answer, settings,
                                         {"parameters", "before", "first_moment", "second_moment"}, names);
        } catch (const Error& error) {
            throw Error(std::string("--program, in its answer to 'hello': ") + error.what());
        }
        visible_ = {hello_.shows.contains("before"), hello_.shows.contains("first_moment"),
                    hello_.shows.contains("second_moment")};
        leave_out_what_is_not_seen(hello_, visible_);
    }

    std::string name() const override { return hello_.name; }
    std::string communicator() const override { return "program"; }
    bool communicates() const override { return false; }
    verify::LevelKind level() const override { return hello_.level; }
    bool takes(int workers) const override { return workers >= 1 && workers <= Programs::most_workers; }
    /// Its processes are this one's, from case to case.
    bool stays_here() const override { return true; }
    std::string unavailable() const override { return programs_.gave_up(); }
    gate::LeftOut left_out() const override { return hello_.left_out; }
    bool in_process() const override { return false; }
    Visible visible() const override { return visible_; }

    std::vector<Life> run(const Scenario& scenario) const override {
        const fs::path folder = fs::absolute(gate::scratch_folder(*group_)) / "gasloc-restart";
        fs::remove_all(folder);
        fs::create_directories(folder);
        return ProgramRounds(programs_, visible_, scenario).run(folder);
    }

  private:
    std::shared_ptr<const gate::Group> group_;
    mutable Programs programs_; ///< which remembers nothing of a case that another would see
    gate::ProgramHello hello_;
    Visible visible_;
};

} // namespace

std::shared_ptr<const gate::Implementation>
program_candidate(const gate::ProgramSettings& settings, const std::shared_ptr<const gate::Group>& group) {
    return std::make_shared<ProgramCandidate>(settings, group);
}

} // namespace truestep::gasloc
