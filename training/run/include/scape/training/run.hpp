#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <scape/problem/problem.hpp>
#include <scape/training/curve.hpp>
#include <scape/training/model.hpp>
#include <scape/training/text.hpp>

namespace scape::training {

/// How a model is trained, whatever the optimizer.
struct Plan {
    Shape shape; ///< whose symbols are the text's
    int ranks = 4;
    std::size_t stages = 1; ///< of a pipeline that each rank is, its blocks cut into as many
    /// Ranks are the processes of an MPI job, which has been started: the same bits, and no checkpoints.
    bool processes = false;
    std::size_t steps = 1000;
    std::size_t batch = 8; ///< windows a rank and step
    double learning_rate = 3e-3;
    std::size_t warm_up = 100; ///< steps
    std::size_t measure_every = 50;
    std::size_t measured_windows = 64; ///< or as many as the measured text has
    problem::HyperParameters hyper{};
    std::size_t density_warm_up = 0; ///< steps, of scape
    /// A folder, for a file a run, from which the same call goes on. None, and nothing is kept.
    std::filesystem::path checkpoints;
    std::size_t checkpoint_every = 100; ///< steps, and at the end; inside of a round at its end
};

/// At a step, from 1 on: up in a line to the peak over the warm-up, then down along half a cosine to a
/// tenth of it.
[[nodiscard]] double learning_rate_at(const Plan& plan, std::size_t step);

/// Throws scape::Error, one line, for a plan that cannot be, a text that is too short for it, and an
/// optimizer that there is none of.
void check(const Plan& plan, const Text& text, const std::vector<std::string>& optimizers);

/// About what all ranks together take.
[[nodiscard]] double bytes_of(const Plan& plan, const Text& text);

/// After each step, with the first rank's loss on its own batch.
using Watch = std::function<void(std::size_t step, double loss)>;

/// Ranks are threads, or processes, each of which has the curve. An optimizer is a peer of bench/peers, as
/// NAME or NAME:NUMBER; "adams" is "dense". Behind a + may stand what compresses the boundaries between
/// stages, "adams+mapl:8": MAPL, D / r = 8; what travels there is counted, too. Start, batches and what is
/// measured follow from the plan, the text and the seed, whatever the optimizer: runs of one seed are a
/// pair, and one that was interrupted goes on from its checkpoint to the same bits. Every rank measures a
/// share of the windows on its own parameters, which differ by rank only where the kind has no replicas;
/// never inside of a round. A run whose loss or gradient is no number any more has ended: what was to be
/// measured from there on is NaN.
[[nodiscard]] Curve train(const Text& text, const Plan& plan, const std::string& optimizer,
                          std::uint64_t seed, const Watch& watch = {});

} // namespace scape::training
