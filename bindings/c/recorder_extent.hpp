#pragma once

#include <span>
#include <string>
#include <vector>

#include <truestep.h>
#include <truestep/problem/layout.hpp>

#include "spool.hpp"

/// Which part of the given vectors a recorder stores.
namespace truestep::abi {

[[nodiscard]] std::vector<float> cut(std::span<const float> whole, const std::vector<problem::Range>& held);

/// Stores a vector, or bits. Given is the whole model, of size `whole`, or only the held ranges.
[[nodiscard]] Spool::Place put(Spool& spool, std::span<const truestep_values> given,
                               const std::vector<problem::Range>& held, problem::Index whole, bool is_mask,
                               const std::string& what);

} // namespace truestep::abi
