#pragma once

namespace truestep::gate {

/// The exit statuses of the gate's programs, as docs/using-the-tool.md and every --help list them.
enum ExitStatus : int { all_passed = 0, difference = 1, bad_input = 2 };

} // namespace truestep::gate
