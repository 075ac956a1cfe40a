// Names, explains and parses the levels of equality, such as EXACT and REL.
#include <truestep/verify/level.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::verify {

std::string name(const Level& level) {
    switch (level.kind) {
    case LevelKind::exact:
        return "EXACT";
    case LevelKind::rerun:
        return "RERUN";
    case LevelKind::ulp:
        return "ULP(" + shortest(level.limit) + ")";
    case LevelKind::rel:
        return "REL";
    case LevelKind::bf16:
        return "BF16";
    case LevelKind::stat:
        return "STAT";
    }
    return "?";
}

std::string explain(const Level& level) {
    switch (level.kind) {
    case LevelKind::exact:
        return "the same bits as the reference, sign of zero included";
    case LevelKind::rerun:
        return "the same bits as the other run of the same implementation";
    case LevelKind::ulp:
        return "at most " + shortest(level.limit) + " units in the last place from the reference";
    case LevelKind::rel:
        return "within twice the fp32 rounding error that can have gathered, by running error analysis of "
               "the "
               "double-precision reference (any order of a sum, any rounding of a scalar)";
    case LevelKind::bf16:
        return "within twice the rounding error that can have gathered in the plainest code that keeps and "
               "computes everything in bf16, by running error analysis of the double-precision reference; "
               "differences below bf16's resolution are not detected";
    case LevelKind::stat:
        return "a statistic over seeds";
    }
    return "?";
}

Level parse_trace_level(const std::string& text) {
    if (text == "exact")
        return Level::exact();
    if (text == "rel")
        return Level::rel();
    if (text == "bf16")
        return Level::bf16();
    if (text == "rerun" || text == "stat" || text == "ulp")
        throw Error("--level " + text + " is not available for one recorded run (" +
                    (text == "ulp"     ? "no rule of section 6 gives a trace a number of ULPs"
                     : text == "rerun" ? "it compares two runs; use 'truestep diff A B'"
                                       : "it needs many seeds") +
                    "); use exact, rel or bf16");
    throw Error("--level is '" + text + "'; it must be exact, rel or bf16");
}

Level parse_claimed_level(const std::string& text) {
    if (text == "exact")
        return Level::exact();
    if (text == "rel")
        return Level::rel();
    throw Error("--level is '" + text + "'; of an implementation it must be exact or rel" +
                (text == "bf16" ? ": bf16 is for recorded runs (truestep verify)" : ""));
}

} // namespace truestep::verify
