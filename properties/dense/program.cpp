// A program of any language as the ranks of dense training: the messages of docs/program-protocol.md.
#include "program.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <truestep/gate/program_case.hpp>
#include <truestep/gate/program_implementation.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/verify/dense/traces.hpp>

#include "trial.hpp"

namespace truestep::properties::dense {

namespace {

namespace fs = std::filesystem;
using gate::Programs;
using Json = Programs::Json;

/// Runs a scenario on the program's processes.
class ProgramRun {
  public:
    ProgramRun(Programs& programs, const VisibleState& visible, const Scenario& scenario)
        : session_(programs, scenario.problem.ranks), visible_(visible), scenario_(scenario),
          records_(static_cast<std::size_t>(scenario.most_ranks())) {}

    std::vector<RankRecord> run(const fs::path& folder);

  private:
    [[nodiscard]] RankRecord& record(int rank) { return records_[static_cast<std::size_t>(rank)]; }
    /// Returns false if a rank refuses to begin.
    bool begin_case(const Problem& problem, const Floats& parameters);
    void restart(const fs::path& folder);
    /// Returns false if a rank has halted.
    bool step(Index number);
    std::vector<StepRecord> look(const Problem& problem);

    gate::ProgramCase session_;
    VisibleState visible_;
    const Scenario& scenario_;
    Index taken_ = 0; ///< steps
    std::vector<RankRecord> records_;
};

std::vector<RankRecord> ProgramRun::run(const fs::path& folder) {
    if (!begin_case(scenario_.problem, scenario_.start))
        return std::move(records_);
    std::vector<StepRecord> begun = look(scenario_.problem);
    for (int rank = 0; rank < session_.workers(); ++rank)
        record(rank).steps[0] = std::move(begun[static_cast<std::size_t>(rank)]);
    for (Index number = 1; number <= scenario_.steps; ++number) {
        if (scenario_.restart > 0 && number == scenario_.restart + 1)
            restart(folder);
        if (!step(number))
            break;
    }
    return std::move(records_);
}

bool ProgramRun::begin_case(const Problem& problem, const Floats& parameters) {
    const auto message = [&](int rank) {
        Beginning given{problem, parameters, {}};
        scenario_.change(rank, given);
        Json of_rank{{"do", "case"}, {"rank", rank}, {"size", parameters.size()}};
        of_rank.update(Json::parse(verify::dense::config_text({given.problem, scenario_.steps})));
        for (const char* of_traces : {"algorithm", "steps"})
            of_rank.erase(of_traces);
        of_rank["parameters"] = session_.write(rank, "initial", given.parameters);
        return of_rank;
    };
    const std::vector<Json> answers = session_.ask(message, {"case", "refused"});
    const auto refuses = [](const Json& answer) { return answer["did"] == "refused"; };
    if (std::ranges::none_of(answers, refuses))
        return true;
    for (int rank = 0; rank < session_.workers(); ++rank)
        if (const Json& answer = answers[static_cast<std::size_t>(rank)]; refuses(answer))
            record(rank).ended = gate::text_of(answer);
        else
            record(rank).steps[0] = {};
    return false;
}

void ProgramRun::restart(const fs::path& folder) {
    session_.with_folder("save", folder);
    session_.move_to(scenario_.after.ranks);
    // Starts from zeros, so that restoring has to replace them.
    if (!begin_case(scenario_.after, Floats(scenario_.start.size(), 0.0F)))
        session_.fail(0, "or another rank refuses to begin again");
    session_.with_folder("restore", folder);
    std::vector<StepRecord> begun = look(scenario_.after);
    for (int rank = 0; rank < session_.workers(); ++rank)
        record(rank).restarted[scenario_.restart] = std::move(begun[static_cast<std::size_t>(rank)]);
}

bool ProgramRun::step(Index number) {
    const Problem& problem = scenario_.at(number);
    const auto message = [&](int rank) {
        Json gradients = Json::array();
        const Index begin = first_micro_batch(problem, rank);
        for (Index i = 0; i < problem.micro_batches[static_cast<std::size_t>(rank)]; ++i)
            gradients.push_back(session_.write(rank, "gradient" + std::to_string(i + 1),
                                               scenario_.gradient(problem, begin + i, number)));
        return Json{{"do", "step"},
                    {"step", taken_ + 1},
                    {"learning_rates", scenario_.rates(number)},
                    {"gradients", std::move(gradients)}};
    };
    const std::vector<Json> answers = session_.ask(message, {"taken", "refused", "halted"});
    bool halted = false;
    for (int rank = 0; rank < session_.workers(); ++rank)
        if (const Json& answer = answers[static_cast<std::size_t>(rank)]; answer["did"] == "halted") {
            halted = true;
            record(rank).halted = 1;
            record(rank).ended = gate::text_of(answer);
        }
    if (halted) {
        for (int rank = 0; rank < session_.workers(); ++rank)
            if (record(rank).halted == 0)
                record(rank).ended = "another rank has halted";
        return false;
    }
    std::vector<StepRecord> seen = look(problem);
    for (int rank = 0; rank < session_.workers(); ++rank) {
        const auto place = static_cast<std::size_t>(rank);
        seen[place].refused = answers[place]["did"] == "refused" ? 1 : 0;
        record(rank).steps[number] = std::move(seen[place]);
    }
    taken_ += answers.front()["did"] == "taken" ? 1 : 0;
    return true;
}

/// Each rank shows the whole state: how it is sharded is the program's own affair.
std::vector<StepRecord> ProgramRun::look(const Problem& problem) {
    const auto any = [&](const auto& has) { return std::ranges::any_of(problem.groups, has); };
    const bool copies = problem.copies == Copies::bf16;
    std::vector<std::pair<std::string, Floats Shard::*>> parts{{"parameters", &Shard::w}};
    if (visible_.first_moment && any([](const Group& group) { return has_first_moment(group); }))
        parts.emplace_back("first_moment", &Shard::m);
    if (visible_.second_moment && any([](const Group& group) { return is_adam(group.rule); }))
        parts.emplace_back("second_moment", &Shard::v);
    std::vector<std::string> names;
    for (const auto& [name, part] : parts)
        names.push_back(name);
    if (copies)
        names.emplace_back("copies");
    const std::size_t size = scenario_.start.size();
    std::vector<StepRecord> all;
    for (const Json& answer : session_.view(names)) {
        const int rank = static_cast<int>(all.size());
        StepRecord& seen = all.emplace_back();
        seen.shard.steps = session_.number(rank, answer, "step", "showed itself", ": the steps taken");
        seen.shard.pieces = {{0, static_cast<Index>(size)}};
        for (const auto& [name, part] : parts)
            seen.shard.*part = session_.take<float>(rank, name, size);
        seen.parameters = copies ? session_.take<float>(rank, "copies", size) : seen.shard.w;
    }
    return all;
}

VisibleState visible_of(const gate::ProgramHello& hello) {
    return {hello.shows.contains("first_moment"), hello.shows.contains("second_moment")};
}

std::vector<std::string> names_of_properties() {
    std::vector<std::string> names;
    for (const auto& family : {sharding_properties, rule_properties, muon_properties, setting_properties,
                               interruption_properties})
        for (const gate::Property& property : family())
            names.push_back(property.name);
    names.push_back(reference_property().name);
    return names;
}

/// A program may have some of the rules: AdamW among them, which trains what Muon leaves, or SGD alone.
std::set<std::string> rules_of(const Json& answer) {
    std::set<std::string> rules;
    for (const Json& rule : answer.value("rules", Json{"sgd", "adam", "adamw", "muon"}))
        rules.insert(std::string(name(parse<Rule>(rule.is_string() ? rule.get<std::string>() : ""))));
    if (!rules.contains("adamw") && rules != std::set<std::string>{"sgd"})
        throw Error("\"rules\" is " + answer["rules"].dump() + "; it must have adamw, or be sgd alone");
    return rules;
}

/// Leaves out what the gate cannot see or ask of processes that talk by themselves, and what this program
/// does not show or claim.
void leave_out(const Json& answer, gate::ProgramHello& hello) {
    hello.without({"traffic", "fault"},
                  "a program's ranks talk by their own means, which the gate does not see");
    hello.without({"shards"}, "each of a program's ranks shows the whole state");
    hello.without({"refusal"}, "a program is given settings that are possible");
    hello.without(
        {"tried_again", "restart.strange", "restart.settings", "restart.spoiled", "restart.stale"},
        "a program's step is not tried again, and its folder holds no other run");
    const Json known = answer.value("knows", Json::array());
    if (!known.is_array() || std::ranges::any_of(known, [](const Json& word) { return word != "starts"; }))
        throw Error("\"knows\" is " + known.dump() + "; it may be a list with \"starts\"");
    if (known.empty())
        hello.without({"settings"}, "the program does not say that it knows 'starts'");
    const std::set<std::string> rules = rules_of(answer);
    // Rules, and the property sgd, are left out by the same names.
    const std::map<std::string, std::vector<std::string>> need{
        {"sgd", {"sgd"}},
        {"adam", {"adam", "first_step", "coupled"}},
        {"adamw", {"adamw", "first_step", "coupled"}},
        {"muon", {"muon", "orthogonal", "turned"}}};
    for (const auto& [rule, all] : need)
        if (!rules.contains(rule))
            hello.without(all, "the program does not have the rule " + rule);
    if (!hello.shows.contains("copies"))
        hello.without({"copies", "masters"}, "the program does not show copies");
    if (!hello.shows.contains("first_moment"))
        hello.without({"orthogonal", "turned"}, "the program does not show first_moment");
    if (hello.level == verify::LevelKind::exact)
        return;
    hello.without({"world", "micro_batches", "coupled", "dealing", "groups", "group_order", "clip"},
                  "at REL other sums may have other bits");
    // The next step is judged from the whole recorded state of this one.
    if (!visible_of(hello).first_moment || !visible_of(hello).second_moment)
        hello.without({"reference"}, "the program does not show both moments");
}

class ProgramRanks final : public gate::ProgramImplementation<Implementation> {
  public:
    ProgramRanks(const gate::ProgramSettings& settings, const std::shared_ptr<const gate::Group>& group)
        : ProgramImplementation(settings, group,
                                {"dense",
                                 1,
                                 {"parameters", "copies", "first_moment", "second_moment"},
                                 names_of_properties(),
                                 leave_out}) {}

    VisibleState visible() const override { return visible_of(hello()); }
    std::vector<RankRecord> run(const Scenario& scenario) const override {
        return ProgramRun(programs(), visible(), scenario)
            .run(scenario.restart > 0 ? gate::empty_folder(group(), "dense-restart") : fs::path());
    }
};

} // namespace

std::shared_ptr<const gate::Implementation>
program_implementation(const gate::ProgramSettings& settings,
                       const std::shared_ptr<const gate::Group>& group) {
    return std::make_shared<ProgramRanks>(settings, group);
}

} // namespace truestep::properties::dense
