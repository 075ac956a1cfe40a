#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <truestep/storage/files.hpp>

namespace truestep::abi {

/// Where vectors wait until their trace is written: memory, or a file that goes with the spool, and with a
/// process that is killed.
class Spool {
  public:
    /// A vector that was put there.
    struct Place {
        std::uint64_t offset = 0; ///< in the file
        std::uint64_t size = 0;
        std::vector<std::byte> bytes{}; ///< where there is no file
    };

    Spool() = default;
    ~Spool() = default;
    Spool(const Spool&) = delete;
    Spool& operator=(const Spool&) = delete;

    /// From here on a file. Throws truestep::Error where there can be none.
    void open(const std::filesystem::path& path);
    [[nodiscard]] Place put(std::span<const std::byte> bytes);
    [[nodiscard]] std::vector<std::byte> get(const Place& place) const;

  private:
    std::filesystem::path path_; ///< that it had
    std::unique_ptr<storage::OutputFile> output_;
    std::unique_ptr<storage::InputFile> input_;
    std::uint64_t written_ = 0;
};

} // namespace truestep::abi
