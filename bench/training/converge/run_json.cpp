// Converts runs of a convergence study to JSON and back, and writes its results.
#include "run_json.hpp"

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/report/environment.hpp>
#include <truestep/report/folder.hpp>
#include <truestep/training/results.hpp>

#include <filesystem>

#include "json.hpp"

namespace truestep::training {

using Json = nlohmann::ordered_json;

Json json_of(const LearnedRun& run) {
    return {{"optimizer", run.curve.optimizer},
            {"seed", run.curve.seed},
            {"learning_rate", run.curve.learning_rate},
            {"points", json_of(run.curve.points)},
            {"ended", run.ended},
            {"digest", run.digest}};
}

LearnedRun run_of(const Json& json) {
    return {{json.at("optimizer"), json.at("seed"), json.at("learning_rate"), points_of(json.at("points"))},
            json.at("ended"),
            json.at("digest")};
}

std::string text(const Convergence::ImplementationVerdict& judged, const std::string& base) {
    std::string line = judged.candidate + " beside " + base + ": " + text(judged.verdict);
    if (judged.same_bits)
        line += "; every loss has the bits of " + base + "'s";
    return line;
}

void Convergence::write(const std::string& folder, const std::string& json,
                        const std::vector<std::string>& arguments) {
    results_.made = {{"command", arguments}, {"environment", report::json_environment()}};
    if (!json.empty())
        write_results(json, text_, settings_.plan, results_);
    if (folder.empty())
        return;
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed)
        throw Error("cannot make the folder " + folder + ": " + failed.message());
    report::write_text(folder + "/index.html", training_page(results_));
    write_results(folder + "/training.json", text_, settings_.plan, results_);
}

} // namespace truestep::training
