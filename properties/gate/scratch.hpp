#pragma once

#include <string>

#include <sys/types.h>

namespace truestep::gate {

/// What a process that this one has started has left in its scratch folder.
void clear_scratch_of(pid_t process);
/// All of the folder, if this process owns it. From a signal handler.
void clear_scratch_at_once();
/// A file in the scratch folder that outlasts its process, and goes with the first one.
[[nodiscard]] std::string lasting_scratch_file(const std::string& name);

} // namespace truestep::gate
