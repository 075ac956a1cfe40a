// Adds to a folder of checkpoints what is none: what a crash has left, and what users put there.
#pragma once

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>

#include <truestep/storage/checkpoint.hpp>

namespace truestep::gate {

/// `what` begins the checkpoints' names, and `part` those of their files.
inline void add_what_is_no_checkpoint(const std::filesystem::path& folder, const std::string& what,
                                      const std::string& part) {
    const auto add = [&](const std::string& name, std::initializer_list<int> saved, int ranks) {
        std::filesystem::create_directories(folder / name);
        for (const int rank : saved)
            std::ofstream(folder / name / storage::name_of_part(part, rank, ranks));
    };
    add(storage::numbered_name(what, 9'999'999'999), {0}, 2); // not all ranks have saved
    add(storage::numbered_name(what, 9'999'999'997), {0, 2}, 3);
    add(what + "-99", {0}, 1); // its number has too few digits
    std::ofstream(folder / storage::numbered_name(what, 9'999'999'998));
}

} // namespace truestep::gate
