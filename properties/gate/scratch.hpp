// Cleaning up the scratch folder (group.hpp).
#pragma once

#include <string>

#include <sys/types.h>

namespace truestep::gate {

/// Removes the scratch files of a child process.
void clear_scratch_of(pid_t process);
/// Removes the whole folder, if this process owns it. Safe in a signal handler.
void clear_scratch_at_once();
/// A file in the scratch folder that outlives its process, and is removed with the folder.
[[nodiscard]] std::string lasting_scratch_file(const std::string& name);

} // namespace truestep::gate
