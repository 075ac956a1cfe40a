#include "problem.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <sstream>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

#include "settings_text.hpp"

namespace truestep::abi {

namespace {

/// "0.01", "constant:0.01", "geometric:1:0.01:10000".
problem::DensitySchedule density(const std::string& text) {
    std::vector<std::string> parts;
    std::istringstream all(text);
    for (std::string part; std::getline(all, part, ':');)
        parts.push_back(part);
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

using Setter = Setters<Settings>::mapped_type;

Setter real_setter(const std::string& key, double problem::HyperParameters::*member) {
    return [=](Settings& settings, const std::string& text) {
        settings.hyper.*member = number<double>(key, text);
    };
}

Setters<Settings> make_setters() {
    using Hyper = problem::HyperParameters;
    return {
        {"algorithm",
         [](Settings& to, const std::string& text) {
             to.algorithm = problem::parse<problem::Algorithm>(text);
         }},
        {"beta1", real_setter("beta1", &Hyper::beta1)},
        {"beta2", real_setter("beta2", &Hyper::beta2)},
        {"epsilon", real_setter("epsilon", &Hyper::epsilon)},
        {"weight_decay",
         [](Settings& to, const std::string& text) { problem::parse_weight_decays(text, to.hyper); }},
        {"param_groups", [](Settings& to, const std::string& text) { to.param_groups = text; }},
        {"clip_norm", real_setter("clip_norm", &Hyper::clip_norm)},
        {"norm",
         [](Settings& to, const std::string& text) {
             to.hyper.norm = problem::parse<problem::NormVersion>(text);
         }},
        {"payload",
         [](Settings& to, const std::string& text) {
             to.hyper.payload = problem::parse<problem::Payload>(text);
         }},
        {"groups",
         [](Settings& to, const std::string& text) { to.hyper.groups = problem::parse_groups(text); }},
        {"bias_correction",
         [](Settings& to, const std::string& text) {
             to.hyper.bias_correction = problem::parse<problem::BiasCorrection>(text);
         }},
        {"density", [](Settings& to, const std::string& text) { to.density = density(text); }},
        {"partition",
         [](Settings& to, const std::string& text) {
             to.partition = problem::parse<problem::PartitionRule>(text);
         }},
        {"reduction",
         [](Settings& to, const std::string& text) { to.reduction = distributed::parse_reduction(text); }},
        {"threads",
         [](Settings& to, const std::string& text) { to.threads = number<int>("threads", text); }},
    };
}

/// A flattened model is one vector, which Python's package takes for a bias: it would train dense at any
/// density.
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

Settings parse_settings(const std::string& text) {
    static const Setters<Settings> setters = make_setters();
    Settings settings;
    read_settings(text, setters, settings);
    check_threads(settings.threads);
    return settings;
}

problem::Layout layout_of(const truestep_tensor* tensors, std::size_t count) {
    if (count > 0)
        need(tensors, "tensors");
    std::vector<problem::Tensor> all;
    for (std::size_t i = 0; i < count; ++i) {
        need(tensors[i].name, "a tensor's name");
        all.push_back({tensors[i].name, tensors[i].size, tensors[i].always_dense != 0});
    }
    return problem::Layout(std::move(all));
}

} // namespace truestep::abi

truestep_status truestep_problem_create(const truestep_tensor* tensors, size_t tensor_count,
                                        int32_t workers, const char* settings, truestep_problem** problem) {
    return truestep::abi::guarded([&] {
        truestep::abi::need(problem, "problem");
        auto parsed = truestep::abi::parse_settings(settings == nullptr ? "" : settings);
        truestep::problem::check_workers(workers);
        auto made = truestep::problem::make_problem(
            parsed.algorithm, workers,
            with_param_groups(truestep::abi::layout_of(tensors, tensor_count), parsed.param_groups),
            parsed.partition, parsed.hyper);
        truestep::problem::check(made);
        truestep::abi::check_sparse(parsed, made);
        *problem = std::make_unique<truestep_problem>(truestep_problem{std::move(parsed), std::move(made)})
                       .release();
    });
}

void truestep_problem_destroy(truestep_problem* problem) {
    delete problem;
}

int64_t truestep_problem_size(const truestep_problem* problem) {
    return problem == nullptr ? 0 : problem->problem.layout.size();
}

truestep_status truestep_problem_density(const truestep_problem* problem, int64_t step, double* density) {
    return truestep::abi::guarded([&] {
        truestep::abi::need(problem, "problem");
        truestep::abi::need(density, "density");
        *density = problem->problem.algorithm == truestep::problem::Algorithm::adams
                       ? 1.0
                       : problem->settings.density.at(step);
    });
}
