#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <truestep.h>

/// Vectors as they come and go through C.
namespace truestep::abi {

/// Pieces as one vector of `size` fp32 values: in place if they are one piece of fp32, else
/// gathered in `room`. `what` begins an error's line, and `whole` names the expected values.
[[nodiscard]] std::span<const float> floats(std::span<const truestep_values> pieces, std::int64_t size,
                                            std::vector<float>& room, const std::string& what,
                                            const char* whole = "parameters of the model");

/// Gathers pieces into a vector that fills `room`. Pieces that are already in place are not copied.
void gather(std::span<const truestep_values> pieces, std::span<float> room, const std::string& what);

/// The bytes of a mask over `size` coordinates.
[[nodiscard]] std::span<const std::uint8_t> bits(const truestep_values& values, std::int64_t size,
                                                 const std::string& what);

[[nodiscard]] std::span<const truestep_values> pieces(const truestep_values* first, std::size_t count,
                                                      const char* name);

void check_rate(double learning_rate);

[[nodiscard]] truestep_values view(std::span<const float> values);
[[nodiscard]] truestep_values view(std::span<const std::uint8_t> bytes);

} // namespace truestep::abi
