#pragma once

#include <cstddef>
#include <filesystem>

#include <truestep/problem/problem.hpp>
#include <truestep/training/model.hpp>
#include <truestep/training/text.hpp>

namespace truestep::training {

/// How a model is trained, whatever the optimizer.
struct Plan {
    Shape shape; ///< its symbols are the text's
    int ranks = 4;
    std::size_t stages = 1; ///< each rank is a pipeline, with its blocks cut into so many stages
    /// Whether ranks are the processes of a running MPI job; the bits are the same.
    bool processes = false;
    std::size_t steps = 1000;
    std::size_t batch = 8; ///< windows a rank and step
    double learning_rate = 3e-3;
    std::size_t warm_up = 100; ///< steps
    std::size_t measure_every = 50;
    std::size_t measured_windows = 64; ///< or as many as the measured text has
    problem::HyperParameters hyper{};
    std::size_t density_warm_up = 0; ///< steps, of scape
    /// A folder with a file for each run, from which the same call continues; the same for all
    /// processes. If empty, nothing is stored.
    std::filesystem::path checkpoints;
    std::size_t checkpoint_every = 100; ///< steps, and at the end; inside of a round at its end
};

/// The rate at a step, counted from 1: up in a line to the peak over the warm-up, then down along
/// half a cosine to a tenth of it.
[[nodiscard]] double learning_rate_at(const Plan& plan, std::size_t step);

/// Throws truestep::Error, one line, for an impossible plan, or a text that is too short for it.
void check(const Plan& plan, const Text& text);

/// The approximate memory of all ranks together.
[[nodiscard]] double bytes_of(const Plan& plan, const Text& text);

} // namespace truestep::training
