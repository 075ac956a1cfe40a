#pragma once

#include <cstddef>
#include <vector>

#include <truestep/problem/layout.hpp>

namespace truestep::distributed::scape {

/// The model's tensors, by number, in buckets: the order in which they are given is the order in the list.
using Buckets = std::vector<std::vector<std::size_t>>;

/// As gradients come in a backward pass: from the last tensor to the first, as many in a bucket as have
/// room in so many bytes; a larger tensor is a bucket by itself. Throws truestep::Error for room for no
/// value.
[[nodiscard]] Buckets buckets_of(const problem::Layout& model, std::size_t bucket_bytes);

} // namespace truestep::distributed::scape
