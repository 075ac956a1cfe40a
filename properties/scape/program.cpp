// A program of any language as an implementation: the messages of docs/program-protocol.md.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <utility>

#include <truestep/gate/program_hello.hpp>
#include <truestep/gate/programs.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/properties/implementations.hpp>

#include "live.hpp"
#include "program_hello.hpp"

namespace truestep::properties {

namespace {

namespace fs = std::filesystem;
using gate::Programs;
using Json = Programs::Json;

Json json_of(const Setup& setup) {
    const problem::Problem& problem = setup.problem;
    const problem::HyperParameters& settings = problem.settings;
    Json tensors = Json::array();
    for (const problem::Tensor& tensor : problem.layout.tensors())
        tensors.push_back(
            {{"name", tensor.name}, {"size", tensor.size}, {"always_dense", tensor.always_dense}});
    Json segments = Json::array();
    for (const problem::Segment& segment : problem.segments)
        segments.push_back({{"begin", segment.begin},
                            {"end", segment.end},
                            {"owner", segment.owner},
                            {"always_dense", segment.always_dense}});
    Json ranges = Json::array();
    for (const problem::Range& range : setup.ranges)
        ranges.push_back({range.begin, range.end});
    return {{"do", "case"},
            {"workers", problem.workers},
            {"size", problem.layout.size()},
            {"beta1", settings.beta1},
            {"beta2", settings.beta2},
            {"epsilon", settings.epsilon},
            {"weight_decay", settings.weight_decay},
            {"clip_norm", settings.clip_norm},
            {"norm", static_cast<int>(settings.norm)},
            {"payload", problem::name(settings.payload)},
            {"groups", settings.groups},
            {"bias_correction", problem::name(settings.bias_correction)},
            {"density", setup.density.at(1)},
            {"tensors", std::move(tensors)},
            {"ranges", std::move(ranges)},
            {"segments", std::move(segments)}};
}

/// A case on its way through the program's processes.
class ProgramRun {
  public:
    /// `ended`: by rank why it does not begin, or nothing, where somebody wants to know that.
    ProgramRun(Programs& programs, const Shows& shows, Setup setup, const std::optional<Odd>& odd = {},
               std::vector<std::string>* ended = nullptr)
        : programs_(programs), shows_(shows), setup_(std::move(setup)) {
        begin_case(odd, ended);
    }

    std::vector<Outcome> step(const Action& action);
    void save(const fs::path& folder) { with_folder("save", folder); }
    void restore(const fs::path& folder) { with_folder("restore", folder); }
    /// Other ranks go on.
    void restart(const Action& action, const fs::path& folder);
    /// A step that is taken back.
    std::vector<Outcome> undo(const Action& action, const fs::path& folder);
    /// One that is, if all take the damaged checkpoint for whole.
    std::vector<Outcome> damage(const Action& action, const fs::path& folder);
    std::vector<View> views();
    std::vector<std::vector<std::uint8_t>> coming();

    [[nodiscard]] std::size_t workers() const { return static_cast<std::size_t>(setup_.problem.workers); }
    [[nodiscard]] fs::path folder() { return programs_.folder(setup_.problem.workers); }

  private:
    [[nodiscard]] std::size_t size() const { return setup_.parameters.size(); }
    [[nodiscard]] fs::path file(std::size_t rank, const std::string& what) {
        return folder() / ("rank" + std::to_string(rank) + "." + what);
    }
    std::vector<Json> ask(std::vector<Json> messages, const std::vector<std::string>& expected) {
        return programs_.ask(setup_.problem.workers, std::move(messages), expected);
    }
    [[noreturn]] void fail(std::size_t rank, const std::string& what) {
        programs_.fail(setup_.problem.workers, static_cast<int>(rank), what);
    }
    void begin_case(const std::optional<Odd>& odd = {}, std::vector<std::string>* ended = nullptr);
    void with_folder(const char* what, const fs::path& folder);
    /// Each rank's files of these names and sizes in bytes.
    std::vector<Json> ask_for_views(const std::vector<std::string>& what);
    template <class Values>
    void take(std::size_t rank, const std::string& what, std::size_t count, Values& values);
    Outcome outcome(std::size_t rank, const Action& action, const Json& answer);

    Programs& programs_;
    Shows shows_;
    Setup setup_;
    Index taken_ = 0; ///< steps
};

void ProgramRun::begin_case(const std::optional<Odd>& odd, std::vector<std::string>* ended) {
    static_cast<void>(programs_.greeted(setup_.problem.workers)); // so that there is a folder
    std::vector<Json> messages;
    for (std::size_t rank = 0; rank < workers(); ++rank) {
        const fs::path parameters = file(rank, "initial");
        const Setup& given = odd && static_cast<std::size_t>(odd->rank) == rank ? odd->setup : setup_;
        gate::write_vector(parameters, given.parameters.data(), size() * sizeof(float));
        Json message = json_of(given);
        message["rank"] = rank;
        message["parameters"] = parameters.string();
        messages.push_back(std::move(message));
    }
    std::vector<std::string> refused;
    for (const Json& answer : ask(std::move(messages), {"case", "refused"}))
        refused.push_back(answer["did"] == "refused" ? gate::text_of(answer) : "");
    if (ended != nullptr)
        *ended = refused;
    for (const std::string& why : refused)
        if (!why.empty())
            throw std::runtime_error("a rank refuses to begin: " + why);
}

Outcome ProgramRun::outcome(std::size_t rank, const Action& action, const Json& answer) {
    Outcome outcome;
    if (answer["did"] == "halted") {
        outcome.kind = Outcome::Kind::halted;
        outcome.text = gate::text_of(answer);
    }
    if (answer["did"] != "refused")
        return outcome;
    outcome.kind = Outcome::Kind::refused;
    std::int64_t who = 0;
    try {
        who = gate::whole_number(answer, "rank");
        outcome.index = gate::whole_number(answer, "index");
    } catch (const Error& error) {
        fail(rank, std::string("refused a step, but ") + error.what());
    }
    if (who < 0 || static_cast<std::size_t>(who) >= workers() || outcome.index < 0 ||
        static_cast<std::size_t>(outcome.index) >= size())
        fail(rank, "refused a step and named rank " + std::to_string(who) + ", index " +
                       std::to_string(outcome.index) + "; there are " + std::to_string(workers()) +
                       " ranks and " + std::to_string(size()) + " coordinates, from 0 on");
    outcome.rank = static_cast<int>(who);
    // A number that JSON may not have, and a place in words: both follow from where it is.
    outcome.value =
        action.gradients[static_cast<std::size_t>(who)][static_cast<std::size_t>(outcome.index)];
    outcome.text = "the program refuses rank " + std::to_string(who) + ", " +
                   setup_.problem.layout.describe(outcome.index);
    return outcome;
}

std::vector<Outcome> ProgramRun::step(const Action& action) {
    std::vector<Json> messages;
    for (std::size_t rank = 0; rank < workers(); ++rank) {
        const fs::path gradient = file(rank, "gradient");
        gate::write_vector(gradient, action.gradients[rank].data(), size() * sizeof(float));
        messages.push_back({{"do", "step"},
                            {"step", taken_ + 1},
                            {"learning_rate", action.learning_rate},
                            {"next_density", setup_.density.at(taken_ + 2)},
                            {"gradient", gradient.string()}});
    }
    const std::vector<Json> answers = ask(std::move(messages), {"taken", "refused", "halted"});
    std::vector<Outcome> outcomes;
    for (std::size_t rank = 0; rank < workers(); ++rank)
        outcomes.push_back(outcome(rank, action, answers[rank]));
    if (outcomes.front().kind == Outcome::Kind::taken)
        ++taken_;
    return outcomes;
}

void ProgramRun::with_folder(const char* what, const fs::path& folder) {
    const Json message{{"do", what}, {"folder", folder.string()}};
    static_cast<void>(ask(std::vector<Json>(workers(), message), {what}));
}

void ProgramRun::restart(const Action& action, const fs::path& folder) {
    setup_.problem = action.problem.value();
    setup_.ranges = action.ranges;
    // What is restored has to replace it.
    setup_.parameters.assign(size(), 0.0F);
    begin_case();
    restore(folder);
}

std::vector<Outcome> ProgramRun::undo(const Action& action, const fs::path& folder) {
    const Index before = taken_;
    save(folder);
    std::vector<Outcome> outcomes = step(action);
    restore(folder);
    taken_ = before;
    return outcomes;
}

std::vector<Outcome> ProgramRun::damage(const Action& action, const fs::path& folder) {
    save(folder);
    for (const Outcome& outcome : step(action))
        if (outcome.kind != Outcome::Kind::taken)
            fail(0, "did not take a step after it had saved: " + outcome.text);
    Outcome common;
    common.damaged = make_damage(folder, action.damage);
    if (common.damaged.empty()) {
        std::vector<Outcome> untouched(workers(), common);
        return untouched;
    }
    const Json message{{"do", "restore"}, {"folder", folder.string()}};
    const std::vector<Json> answers = ask(std::vector<Json>(workers(), message), {"restore", "refused"});
    std::vector<Outcome> outcomes;
    for (std::size_t rank = 0; rank < workers(); ++rank) {
        Outcome outcome = common;
        if (answers[rank]["did"] == "refused") {
            outcome.kind = Outcome::Kind::refused;
            outcome.text = gate::text_of(answers[rank]);
        }
        if (rank > 0 && outcome.kind != outcomes.front().kind)
            fail(rank, (outcome.kind == Outcome::Kind::refused ? "refuses" : "has restored") +
                           std::string(" a checkpoint of which rank 0 says otherwise: ") + outcome.damaged);
        outcomes.push_back(std::move(outcome));
    }
    if (outcomes.front().kind == Outcome::Kind::taken)
        --taken_;
    return outcomes;
}

std::vector<Json> ProgramRun::ask_for_views(const std::vector<std::string>& what) {
    std::vector<Json> messages;
    for (std::size_t rank = 0; rank < workers(); ++rank) {
        Json into = Json::object();
        for (const std::string& view : what)
            into[view] = file(rank, view).string();
        messages.push_back({{"do", "view"}, {"into", std::move(into)}});
    }
    return ask(std::move(messages), {"view"});
}

template <class Values>
void ProgramRun::take(std::size_t rank, const std::string& what, std::size_t count, Values& values) {
    values.resize(count);
    const std::string fault = gate::take_vector(file(rank, what), values.data(), count * sizeof(values[0]));
    if (!fault.empty())
        fail(rank, "left no '" + what + "': " + file(rank, what).string() + " " + fault);
}

std::vector<View> ProgramRun::views() {
    std::vector<std::string> what{"parameters"};
    for (const auto& [shown, name] :
         {std::pair{shows_.moment, "moment"}, {shows_.residual, "residual"}, {shows_.mask, "mask"}})
        if (shown)
            what.emplace_back(name);
    const std::vector<Json> answers = ask_for_views(what);
    std::vector<View> views(workers());
    for (std::size_t rank = 0; rank < workers(); ++rank) {
        View& view = views[rank];
        try {
            view.step = gate::whole_number(answers[rank], "step");
        } catch (const Error& error) {
            fail(rank, std::string("showed itself, but ") + error.what() + ": the steps taken");
        }
        take(rank, "parameters", size(), view.parameters);
        if (shows_.moment)
            take(rank, "moment", size(), view.moment);
        if (shows_.residual)
            take(rank, "residual", size(), view.residual);
        if (shows_.mask)
            take(rank, "mask", (size() + 7) / 8, view.mask);
    }
    return views;
}

std::vector<std::vector<std::uint8_t>> ProgramRun::coming() {
    std::vector<std::vector<std::uint8_t>> masks(workers());
    if (!shows_.next_mask)
        return masks;
    static_cast<void>(ask_for_views({"next_mask"}));
    for (std::size_t rank = 0; rank < workers(); ++rank)
        take(rank, "next_mask", (size() + 7) / 8, masks[rank]);
    return masks;
}

/// A training: of what there is to see only parameters are asked for.
class TrainedProgram final : public Lockstep {
  public:
    /// `folder`: for a restart, if it can be had.
    TrainedProgram(Programs& programs, const Setup& setup, std::optional<fs::path> folder)
        : run_(programs, {false, false, false, false}, setup), setup_(setup), folder_(std::move(folder)) {}
    std::vector<View> views() override { return run_.views(); }
    std::vector<Outcome> step(const Action& action) override { return run_.step(action); }
    void restart() override {
        if (!folder_)
            return;
        Action same;
        same.problem = setup_.problem;
        same.ranges = setup_.ranges;
        run_.save(*folder_);
        run_.restart(same, *folder_);
    }

  private:
    ProgramRun run_;
    const Setup& setup_;
    std::optional<fs::path> folder_;
};

class ProgramImplementation final : public Implementation {
  public:
    ProgramImplementation(const gate::ProgramSettings& settings, const std::shared_ptr<const Group>& group)
        : group_(group),
          programs_(settings, {{"do", "hello"}, {"protocol", gate::program_protocol}, {"system", "scape"}},
                    *group) {
        const Json& answer = programs_.greeted(1);
        try {
            hello_ = hello_of(answer, settings);
        } catch (const Error& error) {
            throw Error(std::string("--program, in its answer to 'hello': ") + error.what());
        }
    }

    std::string name() const override { return hello_.name; }
    std::string communicator() const override { return "program"; }
    bool communicates() const override { return false; }
    verify::LevelKind level() const override { return hello_.level; }
    bool takes(int workers) const override { return workers >= 1 && workers <= Programs::most_workers; }
    bool stays_here() const override { return true; } ///< its processes are this one's
    std::string unavailable() const override { return programs_.gave_up(); }
    gate::LeftOut left_out() const override { return hello_.left_out; }
    bool compares_starts() const override { return !hello_.left_out.contains("starts"); }
    Shows shows() const override { return hello_.shows; }

    History run(const Scenario& scenario) const override {
        History history;
        try {
            run_through(scenario, history);
        } catch (const std::exception& error) {
            history.error = error.what();
        }
        return history;
    }

    void train(const Setup& setup, Live& live) const override {
        std::optional<fs::path> folder;
        if (!left_out().contains("restart"))
            folder = empty_folder("restart");
        TrainedProgram ranks(programs_, setup, folder);
        train_in_lockstep(setup, live, ranks);
    }

  private:
    void run_through(const Scenario& scenario, History& history) const {
        ProgramRun run(programs_, hello_.shows, scenario.setup, scenario.odd, &history.ended);
        bool halted = false;
        for (const Action& action : scenario.actions) {
            Snapshot snapshot;
            if (action.kind == Action::Kind::step)
                snapshot.outcomes = run.step(action);
            if (action.kind == Action::Kind::undo)
                snapshot.outcomes = run.undo(action, empty_folder("undo"));
            if (action.kind == Action::Kind::damage)
                snapshot.outcomes = run.damage(action, empty_folder("damage"));
            if (action.kind == Action::Kind::restart) {
                const fs::path folder = empty_folder("restart");
                run.save(folder);
                run.restart(action, folder);
            }
            snapshot.outcomes.resize(run.workers());
            snapshot.views = run.views();
            halted =
                action.kind == Action::Kind::step && snapshot.outcomes.back().kind == Outcome::Kind::halted;
            history.after.push_back(std::move(snapshot));
        }
        history.coming = halted ? std::vector<std::vector<std::uint8_t>>(run.workers()) : run.coming();
    }

    [[nodiscard]] fs::path empty_folder(const char* name) const {
        fs::path folder = fs::absolute(scratch_folder(*group_)) / name;
        fs::remove_all(folder);
        fs::create_directories(folder);
        return folder;
    }

    std::shared_ptr<const Group> group_;
    mutable Programs programs_; ///< which remembers nothing of a case that another would see
    Hello hello_;
};

} // namespace

std::shared_ptr<const Implementation> program_implementation(const gate::ProgramSettings& settings,
                                                             const std::shared_ptr<const Group>& group) {
    return std::make_shared<ProgramImplementation>(settings, group);
}

} // namespace truestep::properties
