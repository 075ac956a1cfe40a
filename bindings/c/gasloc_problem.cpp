// Provides C functions that make a GASLoC problem from tensors and the text of its settings.
#include "gasloc_problem.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/workers.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/gasloc/stability.hpp>
#include <truestep/problem/partition.hpp>

#include "problem.hpp"
#include "settings_text.hpp"

namespace truestep::abi {

namespace {

using Problem = truestep_gasloc_problem;
/// Parses ROUND:A:B:WEIGHT, with commas between.
std::vector<problem::gasloc::Graph> edges(const std::string& text) {
    constexpr problem::gasloc::Index most_rounds = 1'000'000; // more would not be written as text
    std::vector<problem::gasloc::Graph> graphs;
    for (const std::string& entry : split(text, ',')) {
        const std::vector<std::string> fields = split(entry, ':');
        if (fields.size() != 4)
            throw Error("settings: edges has '" + entry + "'; give ROUND:A:B:WEIGHT, as in 1:0:2:0.5");
        const auto round = number<problem::gasloc::Index>("edges", fields[0]);
        if (round < 1 || round > most_rounds)
            throw Error("settings: edges has '" + entry + "'; rounds are 1 to " +
                        std::to_string(most_rounds));
        if (graphs.size() < static_cast<std::size_t>(round))
            graphs.resize(static_cast<std::size_t>(round));
        graphs[static_cast<std::size_t>(round) - 1].push_back({number<int>("edges", fields[1]),
                                                               number<int>("edges", fields[2]),
                                                               number<double>("edges", fields[3])});
    }
    return graphs;
}

void read_problem(const char* text, Problem& problem) {
    SettingsText given(text);
    problem::gasloc::visit_settings(
        problem.settings,
        [&given](const char* key, auto& value, const auto&... parse) { given.read(key, value, parse...); });
    given.read("edges", problem.settings.given, edges);
    given.read("threads", problem.threads);
    given.finish();
}

void check_problem(Problem& problem) {
    problem::gasloc::Settings& settings = problem.settings;
    distributed::check_threads(problem.threads);
    problem::check_workers(problem.workers);
    check(settings);
    check_law(settings.law, problem.workers);
    if ((settings.law == problem::gasloc::Law::given) == settings.given.empty())
        throw Error(settings.given.empty() ? "settings: law is explicit, and there are no edges; give them"
                                           : "settings: edges are for law=explicit; this is law=" +
                                                 std::string(name(settings.law)));
    for (std::size_t i = 0; i < settings.given.size(); ++i)
        settings.given[i] = checked(settings.given[i], problem.workers,
                                    "settings: edges of round " + std::to_string(i + 1));
    check_stable(settings, problem.workers, settings.given);
}

} // namespace

extern "C" {

truestep_status truestep_gasloc_problem_create(const truestep_tensor* tensors, size_t tensor_count,
                                               int32_t workers, const char* settings,
                                               truestep_gasloc_problem** problem) {
    return guarded([&] {
        need(problem, "problem");
        auto made = std::make_unique<truestep_gasloc_problem>(
            truestep_gasloc_problem{layout_of(tensors, tensor_count), workers});
        read_problem(settings, *made);
        check_problem(*made);
        *problem = made.release();
    });
}

void truestep_gasloc_problem_destroy(truestep_gasloc_problem* problem) {
    delete problem;
}

int64_t truestep_gasloc_problem_size(const truestep_gasloc_problem* problem) {
    return problem == nullptr ? 0 : problem->layout.size();
}

} // extern "C"

} // namespace truestep::abi
