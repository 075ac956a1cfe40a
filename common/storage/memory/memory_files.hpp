#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <truestep/storage/files.hpp>

/// A file system in memory that knows what is certain to survive a power failure, and what may
/// become of the rest. It promises what POSIX does and no more: a file's contents survive when it
/// was synced, a name when its folder was. The rest may survive or be lost, each sector of a file
/// and each change of a folder by itself, in any order.
namespace truestep::storage::memory {

using Path = FileSystem::Path;

/// The whole tree: contents of files, nothing for folders. The root "/" is implied.
using Tree = std::map<std::string, std::optional<std::string>>;

/// One changing call by one rank, or a note of the point that a rank has reached.
struct Operation {
    enum class Kind { create, write, sync, make_folder, rename, exchange, remove, sync_folder, note };

    int rank = 0;
    Kind kind = Kind::create;
    std::string path;
    std::string other;          ///< for rename and exchange
    std::string bytes;          ///< for write
    int handle = 0;             ///< for create, write, sync: which open file
    std::uint64_t meetings = 0; ///< the meetings of all ranks that this rank had reached before
};

[[nodiscard]] std::string text(const Operation& operation);

class State {
  public:
    State() : State(Tree{}) {}
    /// A state in which everything is synced.
    explicit State(const Tree& tree);

    [[nodiscard]] std::error_code apply(const Operation& operation);

    [[nodiscard]] FileKind kind(const Path& path) const;
    [[nodiscard]] const std::string* contents(const Path& path) const; ///< null unless it is a file
    [[nodiscard]] std::optional<std::vector<std::string>> list(const Path& path) const;
    [[nodiscard]] Tree seen() const; ///< what programs see now, and what a killed process leaves

    /// The trees that a power failure may leave: all of them if they are few; else the corners
    /// (nothing survives, all does, one change does, one does not) and as many more, drawn by the
    /// seed.
    [[nodiscard]] std::vector<Tree> outcomes(std::uint64_t seed) const;

  private:
    struct Change { // of a folder, whole or not at all; 0: the name goes
        std::vector<std::pair<std::string, int>> entries;
    };
    struct Node {
        bool folder = false;
        std::vector<std::string> versions{""}; // of a file: what lasts, then after each write
        std::map<std::string, int> lasting;    // of a folder
        std::vector<Change> changes;           // since then
        std::map<std::string, int> entries;    // as seen
    };
    struct Place {
        int folder = 0;
        std::string name;
        int node = 0; // 0: nothing has the name
    };

    [[nodiscard]] std::optional<Place> find(const Path& path) const;
    int add(bool folder);
    static void make(std::map<std::string, int>& entries, const Change& change);
    void change(int folder, Change change);
    [[nodiscard]] static std::vector<std::string> survivors(const Node& file, std::uint64_t seed);
    [[nodiscard]] static std::vector<std::map<std::string, int>> survivors_of_folder(const Node& folder,
                                                                                     std::uint64_t seed);

    std::vector<Node> nodes_{Node{}}; // 0 is nothing, 1 the root
    std::map<std::pair<int, int>, int> handles_;
};

/// The state behind the interface, for the ranks of one run. Each rank has its own view, so that
/// each operation is attributed to it.
class Files {
  public:
    explicit Files(State state, std::size_t largest_write = SIZE_MAX)
        : begin_(state), state_(std::move(state)), largest_write_(largest_write) {}

    /// `meetings` returns how many meetings of all ranks this rank has reached. Without it there
    /// are none.
    [[nodiscard]] std::unique_ptr<FileSystem> rank(int rank, std::function<std::uint64_t()> meetings = {});
    void note(int rank, const std::string& text, std::uint64_t meetings);

    /// The state before the first operation.
    [[nodiscard]] const State& begin() const { return begin_; }
    [[nodiscard]] const State& state() const { return state_; }
    [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }

  private:
    class ObservedState;
    class Input;
    class Output;

    [[nodiscard]] std::error_code apply(Operation operation);

    mutable std::mutex mutex_;
    State begin_;
    State state_;
    std::vector<Operation> operations_;
    std::size_t largest_write_;
    int handles_ = 0;
};

} // namespace truestep::storage::memory
