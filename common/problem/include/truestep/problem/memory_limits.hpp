#pragma once

#include <filesystem>
#include <string>

// A request that memory or disk cannot hold is refused at once, not after minutes of work.

namespace truestep::problem {

/// A size for people: "16.0 TB", "512 B".
[[nodiscard]] std::string bytes_text(double bytes);

/// The memory that this process may use: the machine's, or the limit of the control group or of the
/// process if that is less.
[[nodiscard]] double memory_of_this_machine();

/// Throws truestep::Error if `bytes`, the least that `what` takes, exceed that memory.
void check_memory(double bytes, const std::string& what);

/// The same check for the disk on which a file is to be written.
void check_disk(double bytes, const std::filesystem::path& file);

} // namespace truestep::problem
