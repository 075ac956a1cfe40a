// Tests which known bugs a loss curve reveals. docs/converge.md has the table.
#include "training.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include <truestep/gate/results.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/report/environment.hpp>
#include <truestep/report/folder.hpp>
#include <truestep/training/convergence.hpp>
#include <truestep/training/gate_main.hpp>

#include "commands.hpp"

namespace truestep::tool {

namespace {

using Json = nlohmann::ordered_json;
using gate::Learning;
using training::Convergence;
using training::Outcome;

/// An implementation under test; number 0: the clean one, -1: bugs beside the step.
struct TrainedImplementation {
    int number = 0;
    std::string name;
    std::shared_ptr<const gate::Implementation> implementation;
};

class PlantedTable {
  public:
    PlantedTable(const PlantedTraining& asked, const gate::System& system,
                 const std::vector<std::string>& arguments)
        : asked_(asked), system_(system), learning_(system.learning.value()), arguments_(arguments),
          group_(gate::make_thread_group(std::chrono::duration_cast<std::chrono::milliseconds>(
              std::chrono::duration<double>(asked.timeout)))) {}

    int run() {
        for (const Learning::Setting& setting : learning_.settings)
            if (const std::vector<TrainedImplementation> chosen = candidates(setting); chosen.size() > 1)
                run(setting, chosen);
        return finish();
    }

  private:
    /// The clean implementation first.
    [[nodiscard]] std::vector<TrainedImplementation> candidates(const Learning::Setting& setting) const {
        std::vector<TrainedImplementation> all{{0, "no known bug", system_.planted(0, group_)}};
        if (asked_.numbers.empty() && setting.name.empty())
            for (const Learning::BugOutsideStep& one : learning_.beside(group_))
                all.push_back({-1, one.words, one.implementation});
        for (const gate::KnownBug& known_bug : system_.known_bugs) {
            const bool wanted = asked_.numbers.empty() ||
                                std::ranges::find(asked_.numbers, known_bug.number) != asked_.numbers.end();
            if (!wanted || learning_.setting_of(known_bug.shows) != setting.name)
                continue;
            auto implementation = system_.planted(known_bug.number, group_);
            if (implementation->unavailable().empty())
                all.push_back({known_bug.number, known_bug.name, std::move(implementation)});
        }
        return all;
    }

    void run(const Learning::Setting& setting, const std::vector<TrainedImplementation>& chosen) {
        training::ConvergeSettings settings = training::usual_convergence(learning_, setting.name);
        settings.pairs = static_cast<std::size_t>(asked_.pairs);
        settings.base_pairs = std::max<std::size_t>(2 * settings.pairs, 10);
        Convergence convergence(settings, asked_.jobs, run_seconds());
        convergence.run_base();
        std::printf("%s: sigma of a difference is %.4f nats, trigram %.3f, base line %.3f\n",
                    setting.words.c_str(), convergence.results().sigma.of_difference,
                    training::trigram(convergence.results().levels.floors),
                    end_of(convergence.results().curves.front()).loss);
        for (const TrainedImplementation& one : chosen)
            add(one, setting, convergence.judge({one.implementation}).front());
        const std::string folder =
            asked_.report.empty() ? ""
                                  : (std::filesystem::path(asked_.report) / folder_name(setting)).string();
        convergence.write(folder, "", arguments_);
    }

    /// "payload-bf16-in-groups-2-3-1".
    static std::string folder_name(const Learning::Setting& setting) {
        std::string name;
        for (const char letter : setting.name.empty() ? std::string("usual") : setting.name)
            if (std::isalnum(static_cast<unsigned char>(letter)) != 0)
                name += letter;
            else if (!name.ends_with('-'))
                name += '-';
        return name;
    }

    void add(const TrainedImplementation& candidate, const Learning::Setting& setting,
             const Convergence::ImplementationVerdict& judged) {
        const bool shows = !judged.ended.empty() || judged.verdict.outcome == Outcome::worse ||
                           judged.verdict.outcome == Outcome::mistrusted;
        const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
        rows_.push_back({{"number", candidate.number},
                         {"name", candidate.name},
                         {"setting", setting.name},
                         {"verdict", judged.ended.empty() ? name(judged.verdict.outcome) : "ENDED"},
                         {"difference", number(judged.verdict.difference)},
                         {"uncertainty", number(judged.verdict.uncertainty)},
                         {"same_bits", judged.same_bits},
                         {"same_states", judged.same_states},
                         {"shows", shows},
                         {"why", judged.verdict.why},
                         {"seconds", judged.seconds}});
        if (candidate.number == 0)
            good_ = good_ && judged.verdict.outcome == Outcome::same && judged.same_states;
        else if (candidate.number < 0)
            good_ = good_ && shows;
        if (candidate.number != 0) {
            ++made_;
            shown_ += shows ? 1 : 0;
            undecided_ += !shows && judged.verdict.outcome == Outcome::undecided ? 1 : 0;
            without_occasion_ += judged.same_states ? 1 : 0;
            without_a_bit_ += judged.same_bits && !judged.same_states ? 1 : 0;
        }
        std::printf("%4s %-60s %s%s\n",
                    candidate.number < 0 ? "-" : std::to_string(candidate.number).c_str(),
                    candidate.name.c_str(), judged.ended.empty() ? "" : "ENDED ",
                    judged.same_states ? "no effect: every state equals the correct run's"
                    : judged.same_bits ? "SAME, in every bit"
                                       : text(judged.verdict).c_str());
        std::fflush(stdout);
    }

    int finish() const {
        if (!asked_.json.empty())
            report::write_json(asked_.json, Json{{"system", system_.name},
                                                 {"command", arguments_},
                                                 {"environment", report::json_environment()},
                                                 {"pairs", asked_.pairs},
                                                 {"rows", rows_}});
        std::printf("known bugs: %d trained, %d of them without effect, %d shown by a loss curve, %d not "
                    "(of which %d change no bit of any loss), %d undecided\n",
                    made_, without_occasion_, shown_, made_ - shown_ - undecided_ - without_occasion_,
                    without_a_bit_, undecided_);
        return good_ ? all_passed : difference;
    }

    [[nodiscard]] double run_seconds() const { return 6.0 * asked_.timeout; }

    const PlantedTraining& asked_;
    const gate::System& system_;
    const Learning& learning_;
    const std::vector<std::string>& arguments_;
    std::shared_ptr<const gate::Group> group_;
    Json rows_ = Json::array();
    int made_ = 0;
    int shown_ = 0;
    int undecided_ = 0;
    int without_a_bit_ = 0;
    int without_occasion_ = 0; ///< no bit of any state differs
    bool good_ = true;
};

} // namespace

gate::System with_training(gate::System system) {
    return training::with_training(std::move(system));
}

int planted_training(const PlantedTraining& asked, const gate::System& system,
                     const std::vector<std::string>& arguments) {
    if (asked.pairs < 2)
        throw Error("--pairs is " + std::to_string(asked.pairs) + "; at least 2 are needed");
    return PlantedTable(asked, system, arguments).run();
}

} // namespace truestep::tool
