#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <scape/gate/programs.hpp>

#include "program_process.hpp"

namespace scape::gate {

/// The processes of so many ranks that know of each other, and their folder.
class Programs::World {
  public:
    /// Starts them. Throws scape::Error if that cannot be done.
    World(const std::vector<std::string>& words, std::filesystem::path folder, int workers);
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    [[nodiscard]] int workers() const { return static_cast<int>(ranks_.size()); }
    [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
    [[nodiscard]] const Json& greeted() const { return greeted_; }
    void greet(const Json& greeting, double seconds);
    /// Throws ProgramFailed, and is then of no use any more.
    std::vector<Json> ask(std::vector<Json> messages, const std::vector<std::string>& expected,
                          double seconds);
    [[noreturn]] void fail(int rank, const std::string& what);
    /// Tells them that nothing more comes.
    void dismiss();
    [[nodiscard]] bool has_ended() const;

  private:
    void expect_silence();
    Json checked(std::size_t rank, const std::string& line, const std::vector<std::string>& expected);
    [[nodiscard]] std::string story(std::size_t rank, const std::string& what);
    [[noreturn]] void fail_for_the_ended(const std::vector<bool>& answered);
    [[noreturn]] void fail_for_the_silent(const std::vector<bool>& answered, double seconds);

    std::filesystem::path folder_;
    std::vector<std::unique_ptr<ProgramProcess>> ranks_;
    Json greeted_;
    std::string asked_; ///< what it is at: ", asked for 'step'"
    std::uint64_t question_ = 0;
};

} // namespace scape::gate
