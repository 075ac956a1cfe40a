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

// Programs of any language under test: a process a rank, lines of JSON, vectors in files. What stands in
// the messages is their system's own: docs/program-protocol.md.

namespace truestep::gate {

/// The version of docs/program-protocol.md.
constexpr int program_protocol = 1;

/// What was asked for: `--program` and the options that go with it.
struct ProgramSettings {
    std::string command;                    ///< words as in a shell's line, without its operators
    std::string name;                       ///< empty: what the program calls itself
    std::optional<verify::LevelKind> level; ///< none: what the program claims
    double answer_seconds = 60.0;           ///< after which a silent rank has failed
};

/// A process of the program has died, hung or said what it should not. One line that names the rank. All
/// processes of its world have been ended; the next question starts others.
class ProgramFailed : public std::runtime_error {
  public:
    explicit ProgramFailed(const std::string& text) : std::runtime_error(text) {}
};

/// The program's processes: of every number of ranks that was asked for a *world*, kept from case to case.
class Programs {
  public:
    using Json = nlohmann::ordered_json;

    /// Every process is told first of which system it is. Throws truestep::Error if the command is none.
    Programs(const ProgramSettings& settings, const std::string& system, const Group& group);
    /// Asks them to end, and ends those that do not.
    ~Programs();
    Programs(const Programs&) = delete;
    Programs& operator=(const Programs&) = delete;

    /// Tells each rank of that world its message and waits for all answers, which have `did`: one of
    /// `expected`. Throws ProgramFailed.
    std::vector<Json> ask(int workers, std::vector<Json> messages,
                          const std::vector<std::string>& expected);
    /// Tells one rank of a world that has been greeted its message and waits for the answer. Others may be
    /// told theirs meanwhile, each by a thread of its own, and nothing else. Where one fails all do, with
    /// what it failed of, and `mend` has to follow when no thread asks any more.
    Json ask_one(int workers, int rank, Json message, const std::string& expected);
    /// A thread that asks no more, though its rank has not come to its end: the others ask in vain.
    void give_up(int workers, const std::string& why);
    /// Ends that world if a rank of it has failed, and throws ProgramFailed with the first failure.
    void mend(int workers);
    /// What the first rank answered to the greeting; starts that world if there is none.
    [[nodiscard]] const Json& greeted(int workers);
    /// Where the files of that world stand; as `greeted`.
    [[nodiscard]] std::filesystem::path folder(int workers);
    /// Ends that world and throws ProgramFailed: what a rank has answered cannot be.
    [[noreturn]] void fail(int workers, int rank, const std::string& what);

    /// Why no more processes are started, in one line, or "": several starts in a row have failed.
    [[nodiscard]] const std::string& gave_up() const { return gave_up_; }

    /// More ranks than these are not started.
    static constexpr int most_workers = 128;

  private:
    class World;

    World& world(int workers);
    /// Of one that is there; changes nothing, so that any thread may ask.
    [[nodiscard]] World& greeted_world(int workers) const;
    void make_room(int workers);
    void note_failed_start(World& world, const std::string& why);

    ProgramSettings settings_;
    std::vector<std::string> words_;
    Json greeting_;
    std::filesystem::path scratch_;
    std::vector<std::unique_ptr<World>> worlds_; ///< the one asked last stands last
    std::uint64_t started_ = 0;
    int failed_starts_ = 0; ///< since one that did not fail
    std::string gave_up_;
};

/// A member of an answer, if it is there and of that type; else an Error that says what is due.
[[nodiscard]] std::int64_t whole_number(const Programs::Json& answer, const char* key);
/// Its "text", for a message.
[[nodiscard]] std::string text_of(const Programs::Json& answer);

} // namespace truestep::gate
