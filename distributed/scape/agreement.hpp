#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <scape/distributed/scape.hpp>

namespace scape::distributed {

/// Throws scape::Error on all ranks unless all were given the same problem and the same, finite parameters:
/// none ever travels, so a difference would stay.
void agree_on_problem(Communicator& communicator, const problem::Problem& problem,
                      const std::vector<problem::Range>& ranges, const problem::DensitySchedule& density,
                      Reduction reduction, std::span<const float> parameters);

/// Throws scape::Error for the first value that is a NaN or an infinity. `what` begins the message.
void check_finite(const problem::Layout& layout, const std::string& what, std::span<const float> values);

/// What can be told before a step without the other ranks: throws Halted if `halted` says why there is
/// none, and scape::Error for a gradient of another size or a learning rate that is not finite.
void check_step(const problem::Layout& layout, const std::string& halted, std::size_t gradient_size,
                double learning_rate);

/// Section 4.1: throws RefusedStep on all ranks if one has refused its gradient at `refused` < d, where it
/// has `value`; and scape::Error if one gives another bucket where this one takes the step, `what`, or
/// `fault` says why it cannot. Returns the bytes that this rank sent.
std::uint64_t agree_on_gradient(Communicator& communicator, const problem::Problem& problem, Index refused,
                                float value, const std::string& what, const std::string& fault = {});

/// Throws scape::Error on all ranks unless all give a bucket of these tensors, which ascend: `fault` says
/// why this one cannot be taken, `what` which one it is. Returns the bytes that this rank sent.
std::uint64_t agree_on_bucket(Communicator& communicator, const std::string& what,
                              std::span<const std::size_t> tensors, const std::string& fault);

} // namespace scape::distributed
