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

/// What check(plan, text) does; throws for an optimizer that there is none of, too.
void check(const Plan& plan, const Text& text, const std::vector<std::string>& optimizers);

/// Of ranks that are processes: all throw it, in the same words, and end in good order.
class AgreedError : public Error {
  public:
    using Error::Error;
};

/// After each step, with the first rank's loss on its own batch.
using Watch = std::function<void(std::size_t step, double loss)>;

/// Ranks are threads, or processes, each of which has the curve. An optimizer is a peer of bench/peers, as
/// NAME or NAME:NUMBER; "adams" is "dense". Behind a + may stand what compresses the boundaries between
/// stages, "adams+mapl:8": MAPL, D / r = 8; what travels there is counted, too. Start, batches and what is
/// measured follow from the plan, the text and the seed, whatever the optimizer: runs of one seed are a
/// pair, and one that was interrupted goes on from its checkpoint to the same bits, whether its ranks are
/// threads now or processes. Every rank measures a
/// share of the windows on its own parameters, which differ by rank only where the kind has no replicas;
/// never inside of a round. A run whose loss or gradient is no number any more has ended: what was to be
/// measured from there on is NaN.
[[nodiscard]] Curve train(const Text& text, const Plan& plan, const std::string& optimizer,
                          std::uint64_t seed, const Watch& watch = {});

} // namespace truestep::training
