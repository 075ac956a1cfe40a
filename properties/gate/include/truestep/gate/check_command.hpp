// The command line of `check`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <truestep/gate/system.hpp>

namespace truestep::gate {

/// Makes `command` the gate's command line over these systems; the first is the default. Its callbacks
/// leave the exit status in `status`. `arguments` are the process's, and outlive the parsing, as do the
/// systems. Printed commands begin with `invocation`. If `use_schedule` is given, it chooses the order of
/// things that may be done in any order, and there are --schedules and --from-schedule.
void set_up_check(CLI::App& command, int& status, const std::vector<std::string>& arguments,
                  const std::vector<System>& systems, const std::string& invocation,
                  const std::function<void(std::uint64_t)>& use_schedule = {});

} // namespace truestep::gate
