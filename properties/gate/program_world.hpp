// The processes of one number of ranks.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <truestep/gate/programs.hpp>

#include "program_process.hpp"

namespace truestep::gate {

/// The processes of so many ranks that know of each other, and their folder.
class Programs::World {
  public:
    /// Starts the processes. Throws truestep::Error if that fails.
    World(const std::vector<std::string>& words, std::filesystem::path folder, int workers);
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    [[nodiscard]] int workers() const { return static_cast<int>(ranks_.size()); }
    [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
    [[nodiscard]] const Json& greeted() const { return greeted_; }
    void greet(const Json& greeting, double seconds);
    /// Throws ProgramFailed, after which this world must not be used.
    std::vector<Json> ask(std::vector<Json> messages, const std::vector<std::string>& expected,
                          double seconds);
    /// Asks one rank, in its own thread (programs.hpp).
    Json ask_one(std::size_t rank, Json message, const std::string& expected, double seconds);
    void give_up(const std::string& why);
    /// Why the first question failed, or "".
    [[nodiscard]] std::string failure() const;
    /// The same when no thread asks any more: it names all ranks that have ended.
    [[nodiscard]] std::string whole_failure();
    [[noreturn]] void fail(int rank, const std::string& what);
    /// The end of some rank's standard error, for a person.
    [[nodiscard]] std::string last_lines();
    /// Closes their inputs.
    void dismiss();
    [[nodiscard]] bool has_ended() const;

  private:
    void put(std::size_t rank, Json message);
    std::optional<Json> take(std::size_t rank, const std::vector<std::string>& expected);
    void expect_silence(std::size_t rank);
    [[nodiscard]] std::vector<std::size_t> all_ranks() const;
    std::vector<Json> answers_of(const std::vector<std::size_t>& asked,
                                 const std::vector<std::string>& expected, double seconds);
    Json checked(std::size_t rank, const std::string& line, const std::vector<std::string>& expected);
    [[nodiscard]] std::string story(std::size_t rank, const std::string& what);
    /// Throws if any has.
    void fail_for_the_ended(const std::vector<std::size_t>& asked, const std::vector<bool>& answered);
    [[noreturn]] void fail_for_the_silent(const std::vector<std::size_t>& asked,
                                          const std::vector<bool>& answered, double seconds);

    std::filesystem::path folder_;
    std::vector<std::unique_ptr<ProgramProcess>> ranks_;
    Json greeted_;
    struct Question {
        std::uint64_t id = 0;
        std::string asked{}; ///< ", asked for 'step'"
    };
    std::vector<Question> questions_; ///< by rank: the last one
    mutable std::mutex mutex_;
    std::string failure_;
};

} // namespace truestep::gate
