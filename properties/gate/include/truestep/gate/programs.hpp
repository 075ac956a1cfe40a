#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/gate/group.hpp>
#include <truestep/verify/level.hpp>

// Programs of any language under test: one process per rank, lines of JSON, vectors in files. Each system
// defines its own messages: docs/program-protocol.md.

namespace truestep::gate {

/// The version of docs/program-protocol.md.
constexpr int program_protocol = 1;

/// The values of `--program` and the options that go with it.
struct ProgramSettings {
    std::string command;                    ///< words as in a shell's line, without its operators
    std::optional<verify::LevelKind> level; ///< none: the level that the program claims
    double answer_seconds = 60.0;           ///< until a silent rank has failed
};

/// A process of the program has died, hung or sent a wrong message. One line names the rank. All processes
/// of its world have been ended; the next question starts new ones.
class ProgramFailed : public std::runtime_error {
  public:
    explicit ProgramFailed(const std::string& text) : std::runtime_error(text) {}
};

/// The program's processes: one *world* for each number of ranks, kept from case to case.
class Programs {
  public:
    using Json = nlohmann::ordered_json;

    /// Greets every process with the name of its system. Throws truestep::Error if the command cannot be
    /// parsed.
    Programs(const ProgramSettings& settings, const std::string& system, const Group& group);
    /// Asks the processes to end, and ends those that do not.
    ~Programs();
    Programs(const Programs&) = delete;
    Programs& operator=(const Programs&) = delete;

    /// Sends each rank of that world its message and waits for all answers, whose `did` has to be one of
    /// `expected`. Throws ProgramFailed.
    std::vector<Json> ask(int workers, std::vector<Json> messages,
                          const std::vector<std::string>& expected);
    /// Sends one rank of a greeted world its message and waits for the answer. Meanwhile other threads may
    /// ask other ranks, and nothing else. If one fails, all fail with its reason, and `mend` has to follow
    /// when no thread asks any more.
    Json ask_one(int workers, int rank, Json message, const std::string& expected);
    /// For a thread that stops asking before its rank has completed: the others' questions then fail.
    void give_up(int workers, const std::string& why);
    /// Ends that world if a rank of it has failed, and throws ProgramFailed with the first failure.
    void mend(int workers);
    /// The first rank's answer to the greeting; starts that world if it does not run.
    [[nodiscard]] const Json& greeted(int workers);
    /// The folder of that world's files; starts it like `greeted`.
    [[nodiscard]] std::filesystem::path folder(int workers);
    /// Ends that world and throws ProgramFailed for an impossible answer of a rank.
    [[noreturn]] void fail(int workers, int rank, const std::string& what);

    /// Why no more processes are started, in one line, or "": after several failed starts in a row.
    [[nodiscard]] const std::string& gave_up() const { return gave_up_; }

    /// The most ranks that are started.
    static constexpr int most_workers = 128;

  private:
    class World;

    World& world(int workers);
    /// A world that runs already. Changes nothing, so any thread may call it.
    [[nodiscard]] World& greeted_world(int workers) const;
    void make_room(int workers);
    void note_failed_start(World& world, const std::string& why);

    ProgramSettings settings_;
    std::vector<std::string> words_;
    Json greeting_;
    std::filesystem::path scratch_;
    std::vector<std::unique_ptr<World>> worlds_; ///< the one asked last is at the end
    std::uint64_t started_ = 0;
    int failed_starts_ = 0; ///< since the last one that succeeded
    std::string gave_up_;
};

/// A member of an answer. Throws an Error with what is expected if it is missing or of another type.
[[nodiscard]] std::int64_t whole_number(const Programs::Json& answer, const char* key);
/// The answer's "text", for a message.
[[nodiscard]] std::string text_of(const Programs::Json& answer);

} // namespace truestep::gate
