#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <nccl.h>

namespace truestep::simulator::nccl {

[[nodiscard]] std::size_t size_of(ncclDataType_t type);
[[nodiscard]] const char* name_of(ncclDataType_t type);
[[nodiscard]] bool known(ncclDataType_t type);

/// Reduces `parts` element by element into `result`, in the given order. Throws Fault for unknown
/// types and operations.
void reduce(const std::vector<const std::uint8_t*>& parts, std::uint8_t* result, std::size_t count,
            ncclDataType_t type, ncclRedOp_t operation);

} // namespace truestep::simulator::nccl
