#include "case.hpp"

#include <array>
#include <sstream>
#include <string_view>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/partition.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::averaging {

namespace {

using problem::DataClass;

constexpr std::array<std::pair<std::string_view, Index Case::*>, 5> numbers{
    {{"local_steps", &Case::local_steps},
     {"workers", &Case::workers},
     {"size", &Case::size},
     {"rounds", &Case::rounds},
     {"seed", &Case::seed}}};

Index number(const std::string& key, const std::string& text) {
    const auto value = parse_number<Index>(text);
    constexpr Index most = 1'000'000;
    if (!value || *value < (key == "seed" ? 0 : 1) || *value > most)
        throw Error("case: " + key + " is '" + text + "'; it must be a number up to a million");
    return *value;
}

void read(Case& run, const std::string& key, const std::string& value) {
    if (key == "data") {
        run.data = problem::parse_data_class(value);
        return;
    }
    for (const auto& [known, member] : numbers)
        if (known == key) {
            run.*member = number(key, value);
            return;
        }
    throw Error("case: '" + key +
                "' is none of the keys local_steps, workers, size, rounds, seed, data of KEY=VALUE");
}

rc::Gen<Index> from_one_to(Index last) {
    return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<Index>(1, last + 1));
}

} // namespace

std::string text(const Case& run) {
    std::string result;
    for (const auto& [key, member] : numbers)
        result += std::string(key) + "=" + std::to_string(run.*member) + ",";
    return result + "data=" + problem::name(run.data);
}

Case parse_case(const std::string& text) {
    Case run;
    bool ours = false;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
        const std::size_t equals = part.find('=');
        const std::string key = part.substr(0, equals);
        read(run, key, equals == std::string::npos ? "" : part.substr(equals + 1));
        ours = ours || key == "local_steps";
    }
    if (!ours)
        throw Error("case: '" + text + "' has no local_steps=NUMBER");
    problem::check_workers(run.workers);
    return run;
}

rc::Gen<Case> any_case() {
    return rc::gen::build<Case>(
        rc::gen::set(&Case::local_steps, from_one_to(5)), rc::gen::set(&Case::workers, from_one_to(8)),
        rc::gen::set(&Case::size, from_one_to(40)), rc::gen::set(&Case::rounds, from_one_to(4)),
        rc::gen::set(&Case::data, rc::gen::map(from_one_to(2),
                                               [](Index drawn) {
                                                   return drawn == 1 ? DataClass::dyadic
                                                                     : DataClass::normal;
                                               })),
        rc::gen::set(&Case::seed, from_one_to(9)));
}

std::vector<float> parameters_of(const Case& run) {
    std::vector<float> x;
    for (Index i = 0; i < run.size; ++i)
        x.push_back(problem::initial_parameter(run.data, static_cast<std::uint64_t>(run.seed), i));
    return x;
}

std::vector<std::vector<float>> gradients_of(const Case& run, int worker, Index round) {
    std::vector<std::vector<float>> gradients(static_cast<std::size_t>(run.local_steps));
    Index step = round * run.local_steps;
    for (std::vector<float>& gradient : gradients) {
        ++step;
        gradient.resize(static_cast<std::size_t>(run.size));
        problem::fill_gradient(gradient, run.data, static_cast<std::uint64_t>(run.seed), worker, step);
    }
    return gradients;
}

float learning_rate_of(const Case& run) {
    return run.data == DataClass::dyadic ? 0.125F : 0.1F;
}

} // namespace truestep::averaging
