#pragma once

// Kernels in the form that the machine runs, made from PTX.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace truestep::simulator {

struct Warp;
struct Instruction;

constexpr int lanes = 32;
using Lanes = std::uint32_t; ///< a set of them
using Execute = void (*)(Warp&, const Instruction&);

/// `beyond` marks the place behind the last instruction.
enum class Kind : std::uint8_t { plain, branch, end, barrier, vote, shuffle, beyond };
/// From which lane a lane gets its value: one before it, behind it, across, or by number.
enum class Shuffle : std::uint8_t { up, down, butterfly, index };

/// Operands are numbers of registers or predicates. A negative one is a constant: for registers,
/// ~number.
struct Instruction {
    Execute execute = nullptr; ///< for the lanes of Warp::running
    Kind kind = Kind::plain;
    Shuffle shuffle = Shuffle::up;
    bool negated = false; ///< the guard; of a vote's predicate `c` says it
    int guard = -1;       ///< a predicate, or -1
    int to = 0;
    int a = 0;
    int b = 0;
    int c = 0;
    int d = 0;
    std::array<int, 4> elements{}; ///< of what is loaded or stored
    std::int64_t offset = 0;       ///< of an address
    int target = 0;                ///< of a branch; of a shuffle, its predicate
    int ptx_line = 0;
    int file = 0; ///< of the source, by its number; 0 where it is not known
    int source_line = 0;
};

/// Constant predicates.
constexpr int always_false = -1;
constexpr int always_true = -2;

/// Registers that are set at the start, by their numbers.
enum Given : int { thread_x, block_x, threads_x, blocks_x, lane_id, first_register };

struct Parameter {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
};

struct Kernel {
    std::string name; ///< mangled
    std::vector<Parameter> parameters;
    std::uint64_t parameter_bytes = 0;
    std::uint32_t most_threads = 1024;
    std::uint64_t shared_bytes = 0;
    int registers = first_register;
    int predicates = 0;
    std::vector<Instruction> code;
    std::vector<std::string> text; ///< of each instruction
    std::vector<std::array<std::uint64_t, lanes>> constants;
    std::shared_ptr<const std::map<int, std::string>> files;

    /// "kernel NAME, block 2, thread 17, PTX line 41 `...`, select.hpp:120".
    [[nodiscard]] std::string where(const Instruction& instruction, std::uint32_t block, int thread) const;
    [[nodiscard]] std::string readable_name() const;
};

struct Program {
    std::map<std::string, std::shared_ptr<const Kernel>, std::less<>> kernels;
    std::set<std::string> opcodes; ///< with their modifiers
};

/// Whether registers whose values are never needed at the same time share a place.
enum class Registers : std::uint8_t { shared, apart };

/// Throws Fault, with the line, for PTX that the machine does not know.
[[nodiscard]] Program parse(std::string_view ptx, Registers registers = Registers::shared);

} // namespace truestep::simulator
