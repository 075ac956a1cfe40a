#pragma once

#include <cstddef>
#include <filesystem>

#include <truestep/problem/problem.hpp>
#include <truestep/training/model.hpp>
#include <truestep/training/text.hpp>

namespace truestep::training {

/// How a model is trained, whatever the optimizer.
struct Plan {
    Shape shape; ///< whose symbols are the text's
    int ranks = 4;
    std::size_t stages = 1; ///< of a pipeline that each rank is, its blocks cut into as many
    /// Ranks are the processes of an MPI job, which has been started: the same bits.
    bool processes = false;
    std::size_t steps = 1000;
    std::size_t batch = 8; ///< windows a rank and step
    double learning_rate = 3e-3;
    std::size_t warm_up = 100; ///< steps
    std::size_t measure_every = 50;
    std::size_t measured_windows = 64; ///< or as many as the measured text has
    problem::HyperParameters hyper{};
    std::size_t density_warm_up = 0; ///< steps, of scape
    /// A folder, for a file a run, from which the same call goes on; of processes all have the same one.
    /// None, and nothing is kept.
    std::filesystem::path checkpoints;
    std::size_t checkpoint_every = 100; ///< steps, and at the end; inside of a round at its end
};

/// At a step, from 1 on: up in a line to the peak over the warm-up, then down along half a cosine to a
/// tenth of it.
[[nodiscard]] double learning_rate_at(const Plan& plan, std::size_t step);

/// Throws truestep::Error, one line, for a plan that cannot be, and a text that is too short for it.
void check(const Plan& plan, const Text& text);

/// About what all ranks together take.
[[nodiscard]] double bytes_of(const Plan& plan, const Text& text);

} // namespace truestep::training
