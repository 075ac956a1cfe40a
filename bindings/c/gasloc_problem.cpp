#include "gasloc_problem.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <truestep/gasloc/stability.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/partition.hpp>

#include "problem.hpp"
#include "settings_text.hpp"

namespace truestep::abi {

namespace {

using Problem = truestep_gasloc_problem;
using GaslocSetters = Setters<Problem>;

template <class Owner, class Part>
GaslocSetters::mapped_type number_setter(const std::string& key, Owner gasloc::Settings::*owner,
                                         Part Owner::*part) {
    return
        [=](Problem& to, const std::string& text) { to.settings.*owner.*part = number<Part>(key, text); };
}

GaslocSetters::mapped_type number_setter(const std::string& key, double gasloc::Settings::*part) {
    return [=](Problem& to, const std::string& text) { to.settings.*part = number<double>(key, text); };
}

std::vector<std::string> split(const std::string& text, char between) {
    std::vector<std::string> parts;
    std::istringstream all(text);
    for (std::string part; std::getline(all, part, between);)
        parts.push_back(part);
    return parts;
}

/// ROUND:A:B:WEIGHT, with commas between.
std::vector<gasloc::Graph> edges(const std::string& text) {
    constexpr gasloc::Index most_rounds = 1'000'000; // that are worth being written down
    std::vector<gasloc::Graph> graphs;
    for (const std::string& entry : split(text, ',')) {
        const std::vector<std::string> fields = split(entry, ':');
        if (fields.size() != 4)
            throw Error("settings: edges has '" + entry + "'; give ROUND:A:B:WEIGHT, as in 1:0:2:0.5");
        const auto round = number<gasloc::Index>("edges", fields[0]);
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

bool truth(const std::string& key, const std::string& text) {
    if (text != "yes" && text != "no")
        throw Error("settings: " + key + " is '" + text + "'; give yes or no");
    return text == "yes";
}

GaslocSetters make_gasloc_setters() {
    using Hyper = problem::HyperParameters;
    using gasloc::Settings;
    return {
        {"inner",
         [](Problem& to, const std::string& text) { to.settings.inner = gasloc::parse_inner(text); }},
        {"beta1", number_setter("beta1", &Settings::hyper, &Hyper::beta1)},
        {"beta2", number_setter("beta2", &Settings::hyper, &Hyper::beta2)},
        {"epsilon", number_setter("epsilon", &Settings::hyper, &Hyper::epsilon)},
        {"weight_decay", number_setter("weight_decay", &Settings::hyper, &Hyper::weight_decay)},
        {"bias_correction",
         [](Problem& to, const std::string& text) {
             to.settings.hyper.bias_correction = problem::parse<problem::BiasCorrection>(text);
         }},
        {"eta", number_setter("eta", &Settings::eta)},
        {"alpha", number_setter("alpha", &Settings::alpha)},
        {"gamma", number_setter("gamma", &Settings::gamma)},
        {"momentum",
         [](Problem& to, const std::string& text) { to.settings.momentum = gasloc::parse_momentum(text); }},
        {"law", [](Problem& to, const std::string& text) { to.settings.law = gasloc::parse_law(text); }},
        {"seed", [](Problem& to,
                    const std::string& text) { to.settings.seed = number<std::uint64_t>("seed", text); }},
        {"edges", [](Problem& to, const std::string& text) { to.settings.given = edges(text); }},
        {"allow_unstable",
         [](Problem& to, const std::string& text) {
             to.settings.allow_unstable = truth("allow_unstable", text);
         }},
        {"threads",
         [](Problem& to, const std::string& text) { to.threads = number<int>("threads", text); }},
    };
}

void check_problem(Problem& problem) {
    gasloc::Settings& settings = problem.settings;
    check_threads(problem.threads);
    problem::check_workers(problem.workers);
    check(settings);
    check_law(settings.law, problem.workers);
    if ((settings.law == gasloc::Law::given) == settings.given.empty())
        throw Error(settings.given.empty() ? "settings: law is explicit, and there are no edges; give them"
                                           : "settings: edges are for law=explicit; this is law=" +
                                                 std::string(name(settings.law)));
    for (std::size_t i = 0; i < settings.given.size(); ++i)
        settings.given[i] = checked(settings.given[i], problem.workers,
                                    "settings: edges of round " + std::to_string(i + 1));
    check_stable(settings, problem.workers, settings.given);
}

} // namespace
} // namespace truestep::abi

truestep_status truestep_gasloc_problem_create(const truestep_tensor* tensors, size_t tensor_count,
                                               int32_t workers, const char* settings,
                                               truestep_gasloc_problem** problem) {
    return truestep::abi::guarded([&] {
        truestep::abi::need(problem, "problem");
        static const auto setters = truestep::abi::make_gasloc_setters();
        auto made = std::make_unique<truestep_gasloc_problem>(
            truestep_gasloc_problem{truestep::abi::layout_of(tensors, tensor_count), workers});
        truestep::abi::read_settings(settings == nullptr ? "" : settings, setters, *made);
        truestep::abi::check_problem(*made);
        *problem = made.release();
    });
}

void truestep_gasloc_problem_destroy(truestep_gasloc_problem* problem) {
    delete problem;
}

int64_t truestep_gasloc_problem_size(const truestep_gasloc_problem* problem) {
    return problem == nullptr ? 0 : problem->layout.size();
}
