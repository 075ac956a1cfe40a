#pragma once

#include <cstddef>
#include <vector>

#include <truestep/problem/layout.hpp>

namespace truestep::distributed::scape {

/// The model's tensors, by number, in buckets, which are given in the order of the list.
using Buckets = std::vector<std::vector<std::size_t>>;

/// Buckets in the order of a backward pass: from the last tensor to the first, as many tensors in a
/// bucket as fit into this many bytes; a larger tensor is a bucket by itself. Throws
/// truestep::Error if not even one value fits.
[[nodiscard]] Buckets buckets_of(const problem::Layout& model, std::size_t bucket_bytes);

} // namespace truestep::distributed::scape
