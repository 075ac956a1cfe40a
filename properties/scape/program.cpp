// A program of any language as an implementation: the messages of docs/program-protocol.md.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <utility>

#include <truestep/gate/program_case.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/properties/scape/implementations.hpp>

#include "live.hpp"
#include "program_hello.hpp"

namespace truestep::properties::scape {

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

/// Runs a case on the program's processes.
class ProgramRun {
  public:
    /// `ended`: if given, receives by rank why it does not begin, or nothing.
    ProgramRun(Programs& programs, const VisibleState& shows, Setup setup,
               const std::optional<DissentingRank>& odd = {}, std::vector<std::string>* ended = nullptr)
        : session_(programs, setup.problem.workers), shows_(shows), setup_(std::move(setup)) {
        begin_case(odd, ended);
    }

    std::vector<Outcome> step(const Action& action);
    void save(const fs::path& folder) { session_.with_folder("save", folder); }
    void restore(const fs::path& folder) { session_.with_folder("restore", folder); }
    /// Continues with other ranks.
    void restart(const Action& action, const fs::path& folder);
    /// A step that is undone.
    std::vector<Outcome> undo(const Action& action, const fs::path& folder);
    /// A step that is undone if all ranks accept the damaged checkpoint.
    std::vector<Outcome> damage(const Action& action, const fs::path& folder);
    std::vector<ObservedState> views();
    std::vector<std::vector<std::uint8_t>> coming();

    [[nodiscard]] std::size_t workers() const { return static_cast<std::size_t>(session_.workers()); }

  private:
    [[nodiscard]] std::size_t size() const { return setup_.parameters.size(); }
    void begin_case(const std::optional<DissentingRank>& odd = {},
                    std::vector<std::string>* ended = nullptr);
    [[nodiscard]] std::vector<std::uint8_t> mask(int rank, const char* what) {
        return session_.take<std::uint8_t>(rank, what, (size() + 7) / 8);
    }
    Outcome outcome(int rank, const Action& action, const Json& answer);

    gate::ProgramCase session_;
    VisibleState shows_;
    Setup setup_;
    Index taken_ = 0; ///< steps
};

void ProgramRun::begin_case(const std::optional<DissentingRank>& odd, std::vector<std::string>* ended) {
    const auto message = [&](int rank) {
        const Setup& given = odd && odd->rank == rank ? odd->setup : setup_;
        Json of_rank = json_of(given);
        of_rank["rank"] = rank;
        of_rank["parameters"] = session_.write(rank, "initial", given.parameters);
        return of_rank;
    };
    std::vector<std::string> refused;
    for (const Json& answer : session_.ask(message, {"case", "refused"}))
        refused.push_back(answer["did"] == "refused" ? gate::text_of(answer) : "");
    if (ended != nullptr)
        *ended = refused;
    for (const std::string& why : refused)
        if (!why.empty())
            throw std::runtime_error("a rank refuses to begin: " + why);
}

Outcome ProgramRun::outcome(int rank, const Action& action, const Json& answer) {
    Outcome outcome;
    if (answer["did"] == "halted") {
        outcome.kind = Outcome::Kind::halted;
        outcome.text = gate::text_of(answer);
    }
    if (answer["did"] != "refused")
        return outcome;
    outcome.kind = Outcome::Kind::refused;
    const std::int64_t who = session_.number(rank, answer, "rank", "refused a step");
    outcome.index = session_.number(rank, answer, "index", "refused a step");
    if (who < 0 || static_cast<std::size_t>(who) >= workers() || outcome.index < 0 ||
        static_cast<std::size_t>(outcome.index) >= size())
        session_.fail(rank, "refused a step and named rank " + std::to_string(who) + ", index " +
                                std::to_string(outcome.index) + "; there are " + std::to_string(workers()) +
                                " ranks and " + std::to_string(size()) + " coordinates, from 0 on");
    outcome.rank = static_cast<int>(who);
    // The value may be none that JSON has, and the text is the gate's: both follow from the place.
    outcome.value =
        action.gradients[static_cast<std::size_t>(who)][static_cast<std::size_t>(outcome.index)];
    outcome.text = "the program refuses rank " + std::to_string(who) + ", " +
                   setup_.problem.layout.describe(outcome.index);
    return outcome;
}

std::vector<Outcome> ProgramRun::step(const Action& action) {
    const auto message = [&](int rank) {
        return Json{{"do", "step"},
                    {"step", taken_ + 1},
                    {"learning_rate", action.learning_rate},
                    {"next_density", setup_.density.at(taken_ + 2)},
                    {"gradient",
                     session_.write(rank, "gradient", action.gradients[static_cast<std::size_t>(rank)])}};
    };
    std::vector<Outcome> outcomes;
    for (const Json& answer : session_.ask(message, {"taken", "refused", "halted"}))
        outcomes.push_back(outcome(static_cast<int>(outcomes.size()), action, answer));
    if (outcomes.front().kind == Outcome::Kind::taken)
        ++taken_;
    return outcomes;
}

void ProgramRun::restart(const Action& action, const fs::path& folder) {
    setup_.problem = action.problem.value();
    setup_.ranges = action.ranges;
    // Starts from zeros, so that restoring has to replace them.
    setup_.parameters.assign(size(), 0.0F);
    session_.move_to(setup_.problem.workers);
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
            session_.fail(0, "did not take a step after it had saved: " + outcome.text);
    Outcome common;
    common.damaged = make_damage(folder, action.damage);
    if (common.damaged.empty()) {
        std::vector<Outcome> untouched(workers(), common);
        return untouched;
    }
    std::vector<Outcome> outcomes;
    for (const Json& answer : session_.with_folder("restore", folder, {"refused"})) {
        Outcome outcome = common;
        if (answer["did"] == "refused") {
            outcome.kind = Outcome::Kind::refused;
            outcome.text = gate::text_of(answer);
        }
        if (!outcomes.empty() && outcome.kind != outcomes.front().kind)
            session_.fail(static_cast<int>(outcomes.size()),
                          (outcome.kind == Outcome::Kind::refused ? "refuses" : "has restored") +
                              std::string(" a checkpoint of which rank 0 says otherwise: ") +
                              outcome.damaged);
        outcomes.push_back(std::move(outcome));
    }
    if (outcomes.front().kind == Outcome::Kind::taken)
        --taken_;
    return outcomes;
}

std::vector<ObservedState> ProgramRun::views() {
    std::vector<std::string> what{"parameters"};
    for (const auto& [shown, name] :
         {std::pair{shows_.moment, "moment"}, {shows_.residual, "residual"}, {shows_.mask, "mask"}})
        if (shown)
            what.emplace_back(name);
    std::vector<ObservedState> views;
    for (const Json& answer : session_.view(what)) {
        const int rank = static_cast<int>(views.size());
        ObservedState& view = views.emplace_back();
        view.step = session_.number(rank, answer, "step", "showed itself", ": the steps taken");
        view.parameters = session_.take<float>(rank, "parameters", size());
        if (shows_.moment)
            view.moment = session_.take<float>(rank, "moment", size());
        if (shows_.residual)
            view.residual = session_.take<float>(rank, "residual", size());
        if (shows_.mask)
            view.mask = mask(rank, "mask");
    }
    return views;
}

std::vector<std::vector<std::uint8_t>> ProgramRun::coming() {
    std::vector<std::vector<std::uint8_t>> masks(workers());
    if (!shows_.next_mask)
        return masks;
    static_cast<void>(session_.view({"next_mask"}));
    for (std::size_t rank = 0; rank < workers(); ++rank)
        masks[rank] = mask(static_cast<int>(rank), "next_mask");
    return masks;
}

/// A training, which asks for parameters only.
class TrainedProgram final : public Lockstep {
  public:
    /// `folder`: for a restart, if one is available.
    TrainedProgram(Programs& programs, const Setup& setup, std::optional<fs::path> folder)
        : run_(programs, {false, false, false, false}, setup), setup_(setup), folder_(std::move(folder)) {}
    std::vector<ObservedState> views() override { return run_.views(); }
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

class ProgramRanks final : public gate::ProgramImplementation<Implementation> {
  public:
    ProgramRanks(const gate::ProgramSettings& settings, const std::shared_ptr<const Group>& group)
        : ProgramImplementation(settings, group, programs_of_scape()) {}

    bool compares_starts() const override { return !hello().unsupported.contains("starts"); }
    VisibleState shows() const override { return shows_of(hello()); }

    RunRecording run(const Scenario& scenario) const override {
        RunRecording history;
        try {
            run_through(scenario, history);
        } catch (const std::exception& error) {
            history.error = error.what();
        }
        return history;
    }

    void train(const Setup& setup, GradientSource& live) const override {
        std::optional<fs::path> folder;
        if (!unsupported().contains("restart"))
            folder = gate::empty_folder(group(), "restart");
        TrainedProgram ranks(programs(), setup, folder);
        train_in_lockstep(setup, live, ranks);
    }

  private:
    void run_through(const Scenario& scenario, RunRecording& history) const {
        ProgramRun run(programs(), shows(), scenario.setup, scenario.odd, &history.ended);
        bool halted = false;
        for (const Action& action : scenario.actions) {
            ActionRecording snapshot;
            if (action.kind == Action::Kind::step)
                snapshot.outcomes = run.step(action);
            if (action.kind == Action::Kind::undo)
                snapshot.outcomes = run.undo(action, gate::empty_folder(group(), "undo"));
            if (action.kind == Action::Kind::damage)
                snapshot.outcomes = run.damage(action, gate::empty_folder(group(), "damage"));
            if (action.kind == Action::Kind::restart) {
                const fs::path folder = gate::empty_folder(group(), "restart");
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
};

} // namespace

std::shared_ptr<const Implementation> program_implementation(const gate::ProgramSettings& settings,
                                                             const std::shared_ptr<const Group>& group) {
    return std::make_shared<ProgramRanks>(settings, group);
}

} // namespace truestep::properties::scape
