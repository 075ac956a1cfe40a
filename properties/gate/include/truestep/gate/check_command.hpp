#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <truestep/gate/system.hpp>

namespace truestep::gate {

/// Makes `command` the gate's command line over these systems, of which the first is the default. Its
/// callbacks leave the exit status in `status`. `arguments` are the process's own and outlive the parsing,
/// as do the systems; `invocation` is what commands that repeat things begin with. Where somebody can
/// choose the order of what may be done in any, `use_schedule` does, and there are --schedules and
/// --from-schedule.
void set_up_check(CLI::App& command, int& status, const std::vector<std::string>& arguments,
                  const std::vector<System>& systems, const std::string& invocation,
                  const std::function<void(std::uint64_t)>& use_schedule = {});

} // namespace truestep::gate
