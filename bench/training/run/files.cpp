// Writes curves, floors and verdicts as JSON.

#include <nlohmann/json.hpp>

#include <truestep/report/folder.hpp>
#include <truestep/training/results.hpp>

#include "json.hpp"

namespace truestep::training {

namespace {

using Json = nlohmann::ordered_json;

Json curve_json(const Curve& curve) {
    return {{"optimizer", curve.optimizer},
            {"seed", curve.seed},
            {"learning_rate", curve.learning_rate},
            {"points", json_of(curve.points)}};
}

Json text_json(const Text& text) {
    Json json{{"name", text.name},
              {"symbols", text.symbols},
              {"learned", text.learned.size()},
              {"measured", text.measured.size()}};
    json["entropy"] = text.entropy ? Json(*text.entropy) : Json();
    return json;
}

Json floors_json(const std::vector<Floor>& floors) {
    Json json = Json::array();
    for (const Floor& floor : floors)
        json.push_back({{"order", floor.order}, {"name", name(floor)}, {"loss", floor.loss}});
    return json;
}

Json sigma_json(const Sigma& sigma) {
    if (sigma.from == 0)
        return {};
    return {{"of_difference", sigma.of_difference}, {"from", sigma.from}, {"how", sigma.how}};
}

Json verdict_json(const Comparison& comparison) {
    const Verdict& verdict = comparison.verdict;
    Json json{{"base", comparison.base},
              {"candidate", comparison.candidate},
              {"setting", comparison.setting},
              {"verdict", name(verdict.outcome)},
              {"difference", number(verdict.difference)},
              {"uncertainty", number(verdict.uncertainty)},
              {"z", number(verdict.z)},
              {"limit", number(verdict.limit)},
              {"margin", verdict.margin},
              {"pairs", verdict.pairs},
              {"needs_pairs", verdict.needs}};
    json["steps_ratio"] = verdict.steps ? Json(*verdict.steps) : Json();
    json["why"] = verdict.why;
    return json;
}

} // namespace

std::string words_of(const Text& text) {
    return text.name + ": " + std::to_string(text.symbols) + " symbols, " +
           std::to_string(text.learned.size()) + " to learn from, " + std::to_string(text.measured.size()) +
           " measured";
}

void write_results(const std::filesystem::path& path, const Text& text, const Plan& plan,
                   const TrainingResults& results) {
    Json json = results.made.is_object() ? results.made : Json::object();
    json.update(Json{{"text", text_json(text)},
                     {"plan", json_of(plan, text.symbols)},
                     {"floors", floors_json(results.levels.floors)},
                     {"sigma", sigma_json(results.sigma)},
                     {"verdicts", Json::array()},
                     {"curves", Json::array()}});
    for (const char* const of_a_run : {"steps", "learning_rate", "warm_up"})
        json["plan"].erase(of_a_run);
    for (const Comparison& comparison : results.comparisons)
        json["verdicts"].push_back(verdict_json(comparison));
    for (const Curve& curve : results.curves)
        json["curves"].push_back(curve_json(curve));
    // A name may contain any bytes; JSON must not.
    report::write_text(path, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n", "result");
}

} // namespace truestep::training
