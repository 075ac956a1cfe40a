// Provides C functions that make a problem of SCAPE or AdamS from tensors and settings as text.
#include "problem.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <utility>

#include <truestep/distributed/workers.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/settings.hpp>
#include <truestep/problem/text.hpp>

#include "settings_text.hpp"

namespace truestep::abi {

namespace {

/// Parses "0.01", "constant:0.01" or "geometric:1:0.01:10000".
problem::DensitySchedule density(const std::string& text) {
    const std::vector<std::string> parts = split(text, ':');
    const auto real = [&](std::size_t part) { return number<double>("density", parts[part]); };
    if (parts.size() == 1)
        return problem::DensitySchedule::constant(real(0));
    if (parts.size() == 2 && parts[0] == "constant")
        return problem::DensitySchedule::constant(real(1));
    if (parts.size() == 4 && (parts[0] == "geometric" || parts[0] == "linear")) {
        const auto steps = number<problem::Index>("density", parts[3]);
        return parts[0] == "linear" ? problem::DensitySchedule::linear(real(1), real(2), steps)
                                    : problem::DensitySchedule::geometric(real(1), real(2), steps);
    }
    throw Error("settings: density is '" + text +
                "'; give a number, geometric:START:TARGET:STEPS or linear:START:TARGET:STEPS");
}

/// Refuses a flattened model: it is one vector, which the Python package takes for a bias and would
/// train dense at any density.
void check_sparse(const Settings& settings, const problem::Problem& problem) {
    constexpr problem::Index last_step = std::numeric_limits<problem::Index>::max();
    const double lowest = std::min(settings.density.at(1), settings.density.at(last_step));
    if (problem.algorithm == problem::Algorithm::scape && lowest < 1.0 && has_no_sparse_segment(problem))
        throw Error(
            "density is " + shortest(lowest) +
            ", and every tensor is always dense, so that all coordinates would travel at every step; "
            "set always_dense to false for the tensors that shall be sparse, or density to 1");
}

} // namespace

Settings parse_settings(const char* text) {
    Settings settings;
    problem::HyperParameters& hyper = settings.hyper;
    SettingsText given(text);
    given.read("algorithm", settings.algorithm);
    problem::visit_settings([&](const std::string& key, auto member, const auto&...) {
        if (key != "weight_decay" && key != "decay_order" && key != "k_rounding")
            given.read(key, hyper.*member);
    });
    given.read("weight_decay", hyper, [&hyper](const std::string& decays) {
        problem::parse_weight_decays(decays, hyper);
        return hyper;
    });
    given.read("param_groups", settings.param_groups, std::identity{});
    given.read("groups", hyper.groups, problem::parse_groups);
    given.read("density", settings.density, density);
    given.read("partition", settings.partition);
    given.read("reduction", settings.reduction, distributed::scape::parse_reduction);
    given.read("threads", settings.threads);
    given.finish();
    distributed::check_threads(settings.threads);
    return settings;
}

double density_at(const truestep_problem& problem, problem::Index step) {
    return problem.problem.algorithm == problem::Algorithm::adams ? 1.0 : problem.settings.density.at(step);
}

problem::Layout layout_of(const truestep_tensor* tensors, std::size_t count) {
    if (count > 0)
        need(tensors, "tensors");
    std::vector<problem::Tensor> all;
    for (const truestep_tensor& tensor : std::span(tensors, count))
        all.push_back({&need(tensor.name, "a tensor's name"), tensor.size, tensor.always_dense != 0});
    return problem::Layout(std::move(all));
}

extern "C" {

truestep_status truestep_problem_create(const truestep_tensor* tensors, size_t tensor_count,
                                        int32_t workers, const char* settings, truestep_problem** problem) {
    return guarded([&] {
        need(problem, "problem");
        auto parsed = parse_settings(settings);
        problem::check_workers(workers);
        auto made =
            problem::make_problem(parsed.algorithm, workers,
                                  with_param_groups(layout_of(tensors, tensor_count), parsed.param_groups),
                                  parsed.partition, parsed.hyper);
        problem::check(made);
        check_sparse(parsed, made);
        *problem = new truestep_problem{std::move(parsed), std::move(made)};
    });
}

void truestep_problem_destroy(truestep_problem* problem) {
    delete problem;
}

int64_t truestep_problem_size(const truestep_problem* problem) {
    return problem == nullptr ? 0 : problem->problem.layout.size();
}

truestep_status truestep_problem_density(const truestep_problem* problem, int64_t step, double* density) {
    return guarded([&] { need(density, "density") = density_at(need(problem, "problem"), step); });
}

} // extern "C"

} // namespace truestep::abi
