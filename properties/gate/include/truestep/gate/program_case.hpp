// Runs a case on a program's processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <truestep/gate/programs.hpp>

namespace truestep::gate {

/// The files of one rank: vectors that it is given, and vectors that it writes.
class ProgramFiles {
  public:
    ProgramFiles(const std::filesystem::path& folder, int rank)
        : beginning_((folder / ("rank" + std::to_string(rank) + ".")).string()) {}

    [[nodiscard]] std::string path(const std::string& what) const { return beginning_ + what; }
    /// Writes a file and returns its path. Throws truestep::Error.
    [[nodiscard]] std::string write(const std::string& what, std::span<const std::byte> bytes) const;
    /// Reads a file of exactly so many bytes and removes it. Returns "" or what is wrong with it.
    [[nodiscard]] std::string take(const std::string& what, std::span<std::byte> bytes) const;

  private:
    std::string beginning_;
};

/// Asks all ranks the same thing at once. A wrong answer ends the case by ProgramFailed.
class ProgramCase {
  public:
    using Json = Programs::Json;

    ProgramCase(Programs& programs, int workers) : programs_(programs) { move_to(workers); }

    [[nodiscard]] int workers() const { return workers_; }
    /// Continues with the processes of another world, which know nothing of this one.
    void move_to(int workers);

    [[nodiscard]] std::vector<Json> ask(const std::function<Json(int rank)>& message,
                                        const std::vector<std::string>& expected);
    /// Asks all ranks to save or restore; `expected`: further answers that are allowed.
    std::vector<Json> with_folder(const std::string& what, const std::filesystem::path& folder,
                                  std::vector<std::string> expected = {});
    /// Asks each rank for files of these names.
    [[nodiscard]] std::vector<Json> view(const std::vector<std::string>& names);

    [[nodiscard]] std::string write(int rank, const std::string& what, const std::vector<float>& values) {
        return ProgramFiles(folder_, rank).write(what, std::as_bytes(std::span(values)));
    }
    template <class Value>
    [[nodiscard]] std::vector<Value> take(int rank, const std::string& what, std::size_t count) {
        std::vector<Value> values(count);
        take(rank, what, std::as_writable_bytes(std::span(values)));
        return values;
    }
    /// A whole number in an answer. If it is none, the error begins with `said` and ends with `is`.
    [[nodiscard]] std::int64_t number(int rank, const Json& answer, const char* key,
                                      const std::string& said, const std::string& is = "");
    [[noreturn]] void fail(int rank, const std::string& what) { programs_.fail(workers_, rank, what); }

  private:
    void take(int rank, const std::string& what, std::span<std::byte> bytes);

    Programs& programs_;
    int workers_ = 0;
    std::filesystem::path folder_;
};

} // namespace truestep::gate
