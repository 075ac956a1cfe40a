#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

// What disks and people do to a checkpoint.

namespace truestep::properties::scape {

/// A change to one file of a folder.
struct Damage {
    enum class Kind : std::uint8_t {
        none,
        bit,     ///< one is turned over
        shorter, ///< the last byte is gone
        longer,  ///< a byte of 0 is appended
    };
    Kind kind = Kind::none;
    int file = 0; ///< among the files that are not empty, in the order of their paths, modulo their number
    std::int64_t byte = 0; ///< bit: from the first on, or if negative from the end; modulo the size
    int bit = 0;           ///< of the byte

    friend bool operator==(const Damage&, const Damage&) = default;
};

/// Damages the file, and describes the damage for people; "" if all files are empty. Throws what
/// std::filesystem throws, or truestep::Error.
[[nodiscard]] std::string make_damage(const std::filesystem::path& folder, const Damage& damage);

} // namespace truestep::properties::scape
