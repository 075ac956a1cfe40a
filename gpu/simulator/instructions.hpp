#pragma once

#include <string>
#include <unordered_map>

#include <truestep/simulator/program.hpp>

namespace truestep::simulator {

/// The operands of an instruction, as written.
enum class Form : std::uint8_t {
    one,       ///< to, a
    two,       ///< to, a, b
    three,     ///< to, a, b, c
    four,      ///< to, a, b, c, d
    compare,   ///< predicate, a, b
    predicate, ///< predicate, predicate, and perhaps another
    select,    ///< to, a, b, predicate
    load,      ///< to or {to, ...}, [a + offset]
    store,     ///< [a + offset], from or {from, ...}
    atomic,    ///< to, [a + offset], b
};

struct Entry {
    Execute execute = nullptr;
    Form form = Form::one;
};

/// Entries by opcode and modifiers, as PTX has them: "add.rn.f32".
using Table = std::unordered_map<std::string, Entry>;

void add_integers(Table& table);
void add_reals(Table& table);
void add_conversions(Table& table);
void add_accesses(Table& table);

/// All instructions of the machine except branches, barriers, votes and shuffles.
[[nodiscard]] const Table& instructions();

} // namespace truestep::simulator
