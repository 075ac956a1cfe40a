#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace truestep::simulator::tests {

/// A case of one opcode. Letters name operands: h 16 bits, w 32, l 64, f and d floats, p a
/// predicate. Values are passed as bits.
struct OpcodeCase {
    std::string opcode;
    char result = 'w';
    std::string operands;
    std::function<std::uint64_t(const std::vector<std::uint64_t>&)> plain;

    friend std::ostream& operator<<(std::ostream& out, const OpcodeCase& one) { return out << one.opcode; }
};

[[nodiscard]] const std::vector<OpcodeCase>& opcode_cases();

} // namespace truestep::simulator::tests
