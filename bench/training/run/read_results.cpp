// Reads what an earlier call wrote.
#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/training/results.hpp>

#include "json.hpp"

namespace truestep::training {

namespace {

using Json = nlohmann::ordered_json;

/// Settings in which the runs of one picture may differ.
constexpr std::array of_a_run{"steps", "learning_rate", "warm_up", "density_warm_up", "measure_every"};

void check_plan(const std::string& file, const Json& there, const Plan& plan, const Text& text) {
    const Json here = json_of(plan, text.symbols);
    for (const auto& [key, value] : there.items())
        if (!here.contains(key))
            throw Error(file + ": its runs have another setting: " + one_line(key) + " is " +
                        one_line(value.dump()) +
                        " there and not set here; give the options that they were made with");
    for (const auto& [key, value] : here.items()) {
        if (std::ranges::find(of_a_run, key) != of_a_run.end())
            continue;
        if (!there.contains(key) || there[key] != value)
            throw Error(file + ": its runs have another setting: " + key + " is " +
                        (there.contains(key) ? one_line(there[key].dump()) : "missing") + " there and " +
                        value.dump() + " here; give the options that they were made with");
    }
}

void check_text(const std::string& file, const Json& there, const Text& text) {
    if (there.at("name") != text.name || there.at("symbols") != text.symbols ||
        there.at("learned") != text.learned.size() || there.at("measured") != text.measured.size())
        throw Error(file + ": its runs have another text, " +
                    one_line(there.at("name").get<std::string>()) +
                    "; give the --text that they were made with");
}

} // namespace

std::vector<Curve> curves_told(const std::filesystem::path& path, const Text& text, const Plan& plan) {
    const std::string file = one_line(path.string());
    std::ifstream stream(path, std::ios::binary);
    if (!stream)
        throw Error(file + ": cannot be read; give a file that --json has written");
    try {
        const Json told = Json::parse(std::string(std::istreambuf_iterator<char>(stream), {}));
        check_text(file, told.at("text"), text);
        check_plan(file, told.at("plan"), plan, text);
        std::vector<Curve> curves;
        for (const Json& one : told.at("curves")) {
            Curve curve{one.at("optimizer"), one.at("seed"), one.at("learning_rate"),
                        points_of(one.at("points"))};
            // With several numbers of steps, the label includes them.
            curve.optimizer = curve.optimizer.substr(0, curve.optimizer.find(", "));
            static_cast<void>(end_of(curve));
            curves.push_back(std::move(curve));
        }
        return curves;
    } catch (const Json::exception&) {
        throw Error(file + ": is not JSON of training runs; give a file that --json has written");
    }
}

} // namespace truestep::training
