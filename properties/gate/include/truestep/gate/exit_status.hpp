#pragma once

namespace truestep::gate {

/// What a program ends with. Documented in docs/using-the-tool.md and in every --help.
enum ExitStatus : int { all_passed = 0, difference = 1, bad_input = 2 };

} // namespace truestep::gate
