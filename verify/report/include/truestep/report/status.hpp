#pragma once

#include <string>

namespace truestep::report {

/// The possible outcomes. Only `passed` counts as passed.
enum class Status {
    passed,
    failed,
    skipped,    ///< not run, for a reason that is stated
    mistrusted, ///< passed, but too little non-zero data to prove anything
    untested,   ///< there was nothing to compare
};

[[nodiscard]] std::string name(Status status);

} // namespace truestep::report
