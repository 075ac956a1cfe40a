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

// How candidates are trained, where a case would have gradients that are known beforehand.

namespace truestep::gate {

/// Gradients that follow from what the ranks have become: a training.
class Live {
  public:
    struct Step {
        bool ends = false;     ///< there is no step any more
        bool restarts = false; ///< before it all ranks save, and new ones go on from there
        double learning_rate = 0.0;
        std::vector<std::vector<float>> parts; ///< section 20; their sum is the gradient
    };
    virtual ~Live() = default;
    /// The coming step of a rank whose parameters are these. Asked by each rank once a step, by several of
    /// them at a time.
    [[nodiscard]] virtual Step next(int rank, std::span<const float> parameters) = 0;
    /// What a rank shows of itself between two steps, one after the other.
    virtual void seen(int /*rank*/, std::span<const float> /*values*/) {}
    virtual void seen(int /*rank*/, std::span<const std::uint8_t> /*bytes*/) {}
};
/// The gradient of a step as one, for those that take no parts.
[[nodiscard]] std::vector<float> sum_of(const std::vector<std::vector<float>>& parts);

/// A system's own part in a training of its candidates (section 33).
struct Learning {
    /// What is the same for all that are compared.
    struct Setting {
        std::string name;  ///< what it has beside the usual: "payload bf16"; "" is the usual one
        std::string words; ///< of what is trained: "density 0.1, payload bf16"
        int ranks = 3;
        problem::HyperParameters hyper{};
        double learning_rate = 0.03;
    };
    struct Lesson {
        const Setting& setting;
        problem::Layout layout;
        std::vector<float> parameters;
        problem::Index steps = 0;      ///< that each rank is given
        problem::Index warm_up = 0;    ///< steps over which may fall what falls: a density
        problem::Index restart_at = 0; ///< the step that restarts; 0: none
        std::function<double(problem::Index)> learning_rate; ///< at a step, from 1 on
    };

    std::vector<Setting> settings;              ///< the usual one first
    std::shared_ptr<const Implementation> base; ///< the reference, whose runs are the base line
    /// Whether it is one of those that are trained: of the others nobody speaks.
    std::function<bool(const Implementation&)> learns;
    /// From the lesson's parameters until `live` ends it. Throws what a rank throws, and std::runtime_error
    /// where one does not come to its end.
    std::function<void(const Implementation&, const Lesson&, Live& live)> train;
    /// The name of the setting in which a mistake whose words these are can show at all.
    std::function<std::string(const std::string& shows)> setting_of = [](const std::string&) {
        return std::string();
    };
    /// Mistakes beside the step: what takes it is right, and no step by itself shows them.
    struct Beside {
        std::string words;
        std::shared_ptr<const Implementation> implementation;
    };
    std::function<std::vector<Beside>(const std::shared_ptr<const Group>&)> beside =
        [](const std::shared_ptr<const Group>&) { return std::vector<Beside>(); };
};

} // namespace truestep::gate
