#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

// What disks and people do to a checkpoint.

namespace truestep::properties::scape {

/// A change to one file of a folder, whatever it may hold.
struct Damage {
    enum class Kind : std::uint8_t {
        none,
        bit,     ///< one is turned over
        shorter, ///< the last byte is gone
        longer,  ///< a byte of 0 follows it
    };
    Kind kind = Kind::none;
    int file = 0; ///< of those that are not empty, in the order of their paths, modulo their number
    std::int64_t byte = 0; ///< bit: from the first on, or below 0 from the end; modulo the file's size
    int bit = 0;           ///< of the byte

    friend bool operator==(const Damage&, const Damage&) = default;
};

/// Makes it, and says what it was, for people; "" if there is no file that holds anything. Throws what
/// std::filesystem does, or truestep::Error.
[[nodiscard]] std::string make_damage(const std::filesystem::path& folder, const Damage& damage);

} // namespace truestep::properties::scape
