#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <truestep/gate/group.hpp>
#include <truestep/gate/implementation.hpp>
#include <truestep/problem/layout.hpp>
#include <truestep/problem/problem.hpp>

// How implementations are trained, with gradients that depend on the parameters, unlike those of a case.

namespace truestep::gate {

/// A training as a source of gradients: they follow from the ranks' parameters.
class GradientSource {
  public:
    struct Step {
        bool ends = false;     ///< there are no more steps
        bool restarts = false; ///< before this step all ranks save, and new ranks continue from there
        double learning_rate = 0.0;
        std::vector<std::vector<float>> parts; ///< section 20; the gradient is their sum
    };
    virtual ~GradientSource() = default;
    /// The next step of a rank with these parameters. Each rank asks once a step; several ask at a time.
    [[nodiscard]] virtual Step next(int rank, std::span<const float> parameters) = 0;
    /// Takes what a rank shows of itself between two steps, one vector after the other.
    virtual void seen(int /*rank*/, std::span<const float> /*values*/) {}
    virtual void seen(int /*rank*/, std::span<const std::uint8_t> /*bytes*/) {}
};
/// The gradient as one vector, for implementations that take no parts.
[[nodiscard]] std::vector<float> sum_of(const std::vector<std::vector<float>>& parts);

/// A system's own part in the training of its implementations (section 33).
struct Learning {
    /// The settings that are the same for all compared implementations.
    struct Setting {
        std::string name;  ///< how it differs from the usual setting: "payload bf16"; "" for the usual one
        std::string words; ///< a description: "density 0.1, payload bf16"
        int ranks = 3;
        problem::HyperParameters hyper{};
        double learning_rate = 0.03;
    };
    struct LearningTask {
        const Setting& setting;
        problem::Layout layout;
        std::vector<float> parameters;
        problem::Index steps = 0;                            ///< for each rank
        problem::Index warm_up = 0;                          ///< the steps in which a density may fall
        problem::Index restart_at = 0;                       ///< the step that restarts; 0: none
        std::function<double(problem::Index)> learning_rate; ///< by step, from 1 on
    };

    std::vector<Setting> settings;              ///< the usual one first
    std::shared_ptr<const Implementation> base; ///< the reference, whose runs are the base line
    /// Whether the implementation is trained; the others are not mentioned.
    std::function<bool(const Implementation&)> learns;
    /// Trains from the lesson's parameters until `live` ends. Throws what a rank throws, and
    /// std::runtime_error if one does not complete.
    std::function<void(const Implementation&, const LearningTask&, GradientSource& live)> train;
    /// The name of the setting that can show a known bug with this symptom.
    std::function<std::string(const std::string& shows)> setting_of = [](const std::string&) {
        return std::string();
    };
    /// Known bugs outside the step: each step by itself is right.
    struct BugOutsideStep {
        std::string words;
        std::shared_ptr<const Implementation> implementation;
    };
    std::function<std::vector<BugOutsideStep>(const std::shared_ptr<const Group>&)> beside =
        [](const std::shared_ptr<const Group>&) { return std::vector<BugOutsideStep>(); };
};

} // namespace truestep::gate
