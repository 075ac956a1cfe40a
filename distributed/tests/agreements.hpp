// The table of agreements: for each field on which ranks have to agree, a start or step in which one
// rank has another value in it alone is refused on all ranks, in a line that names rank and field.
// The settings come from their declarations, so that a new one is in the table by itself. The tests
// print it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/problem/layout.hpp>

namespace truestep::distributed::agreements {

using Floats = std::vector<float>;
using problem::Index;
constexpr int ranks = 3;
constexpr std::size_t odd = 1; ///< the rank that differs

/// Converts to anything, to count the members of a struct.
struct Anything {
    template <class Value>
    operator Value() const; // NOLINT: never called
};
template <class Struct, std::size_t... I>
consteval bool takes(std::index_sequence<I...>) {
    return requires {
        Struct{(static_cast<void>(I), Anything())...};
    };
}
template <class Struct, std::size_t Most = 20>
consteval std::size_t members() {
    if constexpr (takes<Struct>(std::make_index_sequence<Most>()))
        return Most;
    else
        return members<Struct, Most - 1>();
}

/// The lines with which all ranks end; "" for one that goes on.
using Lines = std::vector<std::string>;

/// Another value of a field, in all ranks or in the odd one. There are several: some are impossible.
constexpr int values_tried = 3;

/// After these come values that hardly a number may have: NaN, infinite, negative; of whole numbers
/// negative ones; then 0 and the greatest.
constexpr int bad_values = 5;

template <class Value>
Value another(const Value& value, int which) {
    using Limits = std::numeric_limits<Value>;
    if constexpr (std::is_signed_v<Value>) {
        constexpr bool real = std::is_floating_point_v<Value>;
        const std::array<Value, bad_values> bad{
            real ? Limits::quiet_NaN() : Value(-1), real ? Limits::infinity() : Limits::min(),
            Value(-1) - Value(real ? 0 : 1), value == 0 ? Limits::max() : Value(0), Limits::max()};
        if (which >= values_tried)
            return bad[static_cast<std::size_t>(which - values_tried)];
    }
    if constexpr (std::is_same_v<Value, bool>)
        return !value;
    else if constexpr (std::is_enum_v<Value>)
        return static_cast<Value>((static_cast<int>(value) + 1 + which) % values_tried);
    else if constexpr (std::is_floating_point_v<Value>)
        return which == 0 && value != 0 ? value / 2 : value + static_cast<Value>(0.125);
    else
        return which == 0 ? value + 1 : which == 1 ? value * 2 : value - 1;
}

/// A field of what a rank is given, and how another value is put in.
template <class Given>
struct Field {
    std::string name;
    std::function<void(Given&, int which)> change;
    /// Why ranks may differ in it, or "".
    std::string reason = {};
    /// Its key, if it is a number that can be bad.
    std::string number = {};
};

/// One start of all ranks, each with what it was given.
template <class Given>
using Start = std::function<Lines(const std::vector<Given>&)>;

/// How a row of the table is wrong, or "".
inline std::string fault_of(const Lines& lines, const std::string& field, const std::string& reason,
                            const std::string& who_differs) {
    for (std::size_t rank = 0; rank < lines.size(); ++rank) {
        const std::string& line = lines[rank];
        const std::string who = "rank " + std::to_string(rank);
        if (!reason.empty() && !line.empty())
            return "is told, though ranks may differ in it: " + line;
        if (!reason.empty())
            continue;
        if (line.empty())
            return "is not told: " + who + " goes on";
        if (line.find(field) == std::string::npos || line.find(who_differs) == std::string::npos ||
            line.find('\n') != std::string::npos)
            return "is told as something else on " + who + ": " + line;
    }
    return {};
}

/// A bad number on one rank ends all: its own line names the setting, the others' the rank.
template <class Given>
void expect_bad_numbers_named(const std::string& system, const Given& usual, const Start<Given>& start,
                              const Field<Given>& field, const std::string& who_differs) {
    for (int kind = 0; kind < bad_values; ++kind) {
        std::vector<Given> given(ranks, usual);
        field.change(given[odd], values_tried + kind);
        const Lines lines = start(given);
        for (std::size_t rank = 0; rank < lines.size(); ++rank) {
            const std::string& wanted = rank == odd ? field.number : who_differs;
            EXPECT_TRUE(lines[rank].find(wanted) != std::string::npos &&
                        lines[rank].find('\n') == std::string::npos)
                << system << ": bad value " << kind << " of " << field.number << " on " << who_differs
                << ", and rank " << rank << " says: " << lines[rank];
        }
    }
}

/// Makes and judges the rows of the table for these fields.
template <class Given>
void expect_agreements(const std::string& system, const Given& usual, const Start<Given>& start,
                       const std::vector<Field<Given>>& fields, const std::string& who_differs = "rank 1") {
    const auto starts = [&](const Given& given) {
        for (const std::string& line : start(std::vector<Given>(ranks, given)))
            if (!line.empty())
                return line;
        return std::string();
    };
    ASSERT_EQ(starts(usual), "") << system << " does not start at all";
    std::set<std::string> names;
    for (const Field<Given>& field : fields) {
        names.insert(field.name);
        std::string fault = "has no other value with which all ranks begin";
        for (int which = 0; which < values_tried; ++which) {
            Given other = usual;
            field.change(other, which);
            if (const std::string why = starts(other); !why.empty()) {
                fault += ": " + why;
                continue;
            }
            std::vector<Given> given(ranks, usual);
            given[odd] = other;
            const Lines lines = start(given);
            fault = fault_of(lines, field.name, field.reason, who_differs);
            std::cout << "| " << system << " | " << field.name << " | "
                      << (field.reason.empty() ? lines.front() : "not told: " + field.reason) << " |\n";
            break;
        }
        EXPECT_EQ(fault, "") << system << ": " << field.name;
        if (!field.number.empty())
            expect_bad_numbers_named(system, usual, start, field, who_differs);
    }
    EXPECT_EQ(names.size(), fields.size()) << system << " has a field twice";
}

/// How each rank ends, by a function that runs ranks: run_ranks or run_peers.
template <class Rank, class Each>
Lines lines_of(int count, void (*run)(int, const std::function<void(Rank&)>&, std::chrono::milliseconds),
               const Each& each) {
    Lines lines(static_cast<std::size_t>(count));
    const auto recorded = [&](Rank& rank) {
        try {
            each(rank);
        } catch (const std::exception& error) {
            lines[static_cast<std::size_t>(rank.rank())] = error.what();
            throw; // so that no other rank waits for this one
        }
    };
    try {
        run(count, recorded, std::chrono::seconds(10));
    } catch (const std::exception&) { // is in the lines
    }
    return lines;
}

/// The fields that `visit_settings` shows, of the settings to which `of` leads. `before` is what a
/// message has before the name.
template <class Given, class Of>
void add_settings(std::vector<Field<Given>>& fields, Given usual, const Of& of, const std::string& before) {
    visit_settings(of(usual), [&]<class Value>(const std::string& key, const Value&, const auto&...) {
        const auto change = [key, of](Given& given, int which) {
            visit_settings(of(given), [&](const std::string& one, auto& value, const auto&...) {
                if (one == key)
                    value = another(value, which);
            });
        };
        fields.push_back({before + key, change, "", std::is_signed_v<Value> ? key : ""});
    });
}

inline void differ(Floats& values) {
    values.back() = -values.back(); // a single bit
}

} // namespace truestep::distributed::agreements
