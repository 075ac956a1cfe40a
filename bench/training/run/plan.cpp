// Checks a training plan, its memory included, and computes the learning rate of each step.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>

#include <truestep/problem/error.hpp>
#include <truestep/training/plan.hpp>

namespace truestep::training {

namespace {

void at_least_one(std::string_view what, std::size_t value) {
    constexpr std::size_t most = 100'000'000;
    if (value < 1 || value > most)
        throw Error(std::string(what) + " is " + std::to_string(value) + "; it must be from 1 to " +
                    std::to_string(most));
}

void check_length(const Text& text, std::string_view what, std::size_t size, std::size_t context) {
    if (size <= context)
        throw Error(text.name + ": there are " + std::to_string(size) + " symbols to " + std::string(what) +
                    ", and a window of " + std::to_string(context) + " takes " +
                    std::to_string(context + 1) + "; give a longer text, or a smaller context");
}

void check_checkpoints(const Plan& plan) {
    at_least_one("the number of steps between two checkpoints", plan.checkpoint_every);
    if (plan.checkpoints.empty())
        return;
    std::error_code error;
    std::filesystem::create_directories(plan.checkpoints, error);
    if (error && !std::filesystem::is_directory(plan.checkpoints)) // another process may have made it first
        throw Error("cannot make the folder " + plan.checkpoints.string() + ": " + error.message());
}

/// Returns nothing if the system does not tell.
std::optional<double> free_bytes() {
    std::ifstream file("/proc/meminfo");
    std::string word;
    double kibibytes = 0;
    while (file >> word)
        if (word == "MemAvailable:" && file >> kibibytes)
            return kibibytes * 1024;
    return std::nullopt;
}

void check_memory(const Plan& plan, const Text& text) {
    const double needed = bytes_of(plan, text);
    const std::optional<double> available = free_bytes();
    if (!available || needed <= *available)
        return;
    char line[160];
    std::snprintf(line, sizeof line,
                  "%d ranks of this model take about %.1f GiB, and %.1f GiB are free; take fewer ranks, a "
                  "smaller batch or a smaller model",
                  plan.ranks, needed * 0x1p-30, *available * 0x1p-30);
    throw Error(line);
}

} // namespace

double learning_rate_at(const Plan& plan, std::size_t step) {
    constexpr double last = 0.1; // of the peak
    if (step <= plan.warm_up)
        return plan.learning_rate * static_cast<double>(step) / static_cast<double>(plan.warm_up);
    const double way = static_cast<double>(step - plan.warm_up) /
                       static_cast<double>(std::max(plan.steps, plan.warm_up + 1) - plan.warm_up);
    return plan.learning_rate * (last + (1 - last) * (1 + std::cos(std::numbers::pi * way)) / 2);
}

double bytes_of(const Plan& plan, const Text& text) {
    Shape shape = plan.shape;
    shape.symbols = text.symbols;
    const auto parameters = static_cast<double>(layout_of(shape).size());
    constexpr double vectors = 10; // of the optimizer, and what it receives
    return plan.ranks * (static_cast<double>(Model<float>::bytes(shape, plan.batch)) +
                         vectors * parameters * sizeof(float));
}

void check(const Plan& plan, const Text& text) {
    Shape shape = plan.shape;
    shape.symbols = text.symbols;
    if (text.symbols < 2)
        throw Error(text.name + ": it has " + std::to_string(text.symbols) +
                    " different symbols; at least 2 are needed for anything to be learned");
    check(shape);
    if (plan.ranks < 1 || plan.ranks > 256)
        throw Error("there are " + std::to_string(plan.ranks) + " ranks; they must be from 1 to 256");
    if (plan.stages < 1 || plan.stages > plan.shape.layers)
        throw Error("there are " + std::to_string(plan.stages) + " stages for " +
                    std::to_string(plan.shape.layers) +
                    " layers; each stage takes one layer or more, so give fewer stages or more layers");
    at_least_one("the number of steps", plan.steps);
    at_least_one("the batch", plan.batch);
    at_least_one("the number of steps between two measurements", plan.measure_every);
    at_least_one("the number of measured windows", plan.measured_windows);
    if (!(plan.learning_rate > 0 && plan.learning_rate <= 10))
        throw Error("the learning rate is " + std::to_string(plan.learning_rate) +
                    "; it must be above 0 and at most 10");
    if (plan.warm_up > plan.steps)
        throw Error("the warm-up is " + std::to_string(plan.warm_up) + " steps of " +
                    std::to_string(plan.steps) + "; take fewer");
    check_length(text, "learn from", text.learned.size(), plan.shape.context);
    check_length(text, "measure on", text.measured.size(), plan.shape.context);
    problem::check(plan.hyper);
    check_checkpoints(plan);
    check_memory(plan, text);
}

} // namespace truestep::training
