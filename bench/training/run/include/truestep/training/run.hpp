#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/training/curve.hpp>
#include <truestep/training/plan.hpp>

namespace truestep::training {

/// Does what check(plan, text) does; also throws for an unknown optimizer.
void check(const Plan& plan, const Text& text, const std::vector<std::string>& optimizers);

/// An error of ranks that are processes: all throw it with the same text, and end in good order.
class AgreedError : public Error {
  public:
    using Error::Error;
};

/// Called after each step, with the first rank's loss on its own batch.
using Watch = std::function<void(std::size_t step, double loss)>;

/// Trains a model. Ranks are threads, or processes, each of which returns the curve.
///
/// An optimizer is a peer of bench/peers, as NAME or NAME:NUMBER; "adams" is "dense". After a + may
/// follow a compression of the boundaries between stages: "adams+mapl:8" is MAPL with D / r = 8.
/// Its bytes are counted, too.
///
/// Start, batches and measurements follow from the plan, the text and the seed, whatever the
/// optimizer, so runs of one seed are a pair. An interrupted run continues from its checkpoint to
/// the same bits, with threads or processes. Every rank measures a share of the windows on its own
/// parameters, never inside of a round; parameters differ by rank only for kinds without replicas.
/// A run whose loss or gradient is not finite has ended; its later measurements are NaN.
[[nodiscard]] Curve train(const Text& text, const Plan& plan, const std::string& optimizer,
                          std::uint64_t seed, const Watch& watch = {});

} // namespace truestep::training
