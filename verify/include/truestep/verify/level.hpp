// The levels of equality at which runs are compared (section 6).
#pragma once

#include <string>

#include <truestep/report/status.hpp>

namespace truestep::verify {

/// The guarantee levels of section 6. A comparison states its level.
enum class LevelKind {
    exact, ///< the same bits as the reference, sign of zero included
    rerun, ///< the same bits as another run of the same implementation
    ulp,   ///< at most `limit` units in the last place from the reference
    rel,   ///< at most a bound per value from the double-precision reference, written with its cause
    bf16,  ///< the same for implementations that store and compute everything in bf16
    stat,  ///< a statistic over seeds
};

struct Level {
    LevelKind kind = LevelKind::exact;
    double limit = 0.0; ///< for ulp

    static Level exact() { return {LevelKind::exact, 0.0}; }
    static Level rerun() { return {LevelKind::rerun, 0.0}; }
    static Level ulp(double limit) { return {LevelKind::ulp, limit}; }
    static Level rel() { return {LevelKind::rel, 0.0}; }
    static Level bf16() { return {LevelKind::bf16, 0.0}; }
};

/// The name of a level, such as "EXACT" or "ULP(4)".
[[nodiscard]] std::string name(const Level& level);

/// The level's promise and, for REL and BF16, the origin of its bound: one line.
[[nodiscard]] std::string explain(const Level& level);

/// Parses "exact", "rel" or "bf16": the levels at which a trace can be checked. Throws
/// truestep::Error that says why another level is impossible.
[[nodiscard]] Level parse_trace_level(const std::string& text);
/// Parses "exact" or "rel": the levels that an implementation can claim. Throws likewise.
[[nodiscard]] Level parse_claimed_level(const std::string& text);

using report::Status;

} // namespace truestep::verify
