#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <truestep/storage/files.hpp>

namespace truestep::abi {

/// Stores vectors until their trace is written: in memory, or in a file that vanishes with the
/// spool or its process, even if that is killed.
class Spool {
  public:
    /// The place of a stored vector.
    struct Place {
        std::uint64_t offset = 0; ///< in the file
        std::uint64_t size = 0;
        std::vector<std::byte> bytes{}; ///< where there is no file
    };

    Spool() = default;
    ~Spool() = default;
    Spool(const Spool&) = delete;
    Spool& operator=(const Spool&) = delete;

    /// Uses a file from here on. Throws truestep::Error if it cannot be made.
    void open(const std::filesystem::path& path);
    [[nodiscard]] Place put(std::span<const std::byte> bytes);
    [[nodiscard]] std::vector<std::byte> get(const Place& place) const;

  private:
    std::filesystem::path path_; ///< before it was unlinked
    std::unique_ptr<storage::OutputFile> output_;
    std::unique_ptr<storage::InputFile> input_;
    std::uint64_t written_ = 0;
};

} // namespace truestep::abi
