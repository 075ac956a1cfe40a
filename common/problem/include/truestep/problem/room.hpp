#pragma once

#include <filesystem>
#include <string>

// What is asked for and can be held nowhere is refused at once, not after minutes of work.

namespace truestep::problem {

/// "16.0 TB", "512 B".
[[nodiscard]] std::string bytes_text(double bytes);

/// What a process here may have: the machine's memory, or the limit of the control group or of the process
/// where that is less.
[[nodiscard]] double memory_of_this_machine();

/// Throws truestep::Error if `bytes`, the least that `what` takes, are more than that.
void check_memory(double bytes, const std::string& what);

/// The same of the disk on which a file is to be written.
void check_disk(double bytes, const std::filesystem::path& file);

} // namespace truestep::problem
