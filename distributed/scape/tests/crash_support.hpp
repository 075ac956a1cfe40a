#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <truestep/optimizer.hpp>

#include "memory_files.hpp"

/// Ends writers of checkpoints at each of their operations, and reads the result by the code that
/// users call.
namespace truestep::distributed::scape::crash {

using problem::Index;
using storage::FileSystem;
using storage::memory::Files;
using storage::memory::Operation;
using storage::memory::State;
using storage::memory::Tree;

inline const std::string above = "/home/new"; // of which only /home exists
inline const std::string folder = above + "/checkpoints";

/// A checkpoint: its run (runs differ), its number of ranks, its step.
struct Save {
    int run = 0;
    int workers = 1;
    Index step = 0;

    auto operator<=>(const Save&) const = default;
};

/// A file system between a rank and its view, for example with a known bug. The view outlives it.
using Layer = std::function<std::unique_ptr<FileSystem>(FileSystem&)>;

[[nodiscard]] const Layout& model();
[[nodiscard]] truestep::Settings settings();
[[nodiscard]] std::unique_ptr<Optimizer> new_optimizer(Communicator& communicator);
/// Steps of a run up to this one.
void take_steps(Optimizer& optimizer, int run, int rank, Index last);

/// One process of `workers` ranks that starts a new run on these files, and saves some of its
/// steps.
[[nodiscard]] std::unique_ptr<Files> write(const State& begin, const std::vector<Save>& saves,
                                           const Layer& layer = {}, std::size_t largest_write = SIZE_MAX);

/// A state that may result from the first operations of all ranks, each up to some point: a rank
/// passes a meeting only if all have reached it.
struct Cut {
    State state;
    std::string ended_at;     ///< the next operation of each rank
    std::size_t begun = 0;    ///< how many of the saves any rank has begun
    std::size_t reported = 0; ///< and how many were reported as done on any
};
[[nodiscard]] std::vector<Cut> cuts(const Files& files);

/// Reads a tree with all the functions that a user calls, on one rank, and continues from there,
/// once for all trees with the same names.
class Reader {
  public:
    struct Verdict {
        std::optional<Save> found; ///< complete, and unmixed
        std::string error;         ///< empty if one was found, or there is no checkpoint
    };

    /// `known` are all checkpoints that may be found.
    explicit Reader(const std::vector<Save>& known);

    void read(const std::vector<Tree>& trees);
    /// The verdict on a tree that was read.
    [[nodiscard]] const Verdict& verdict(const Tree& tree) const { return verdicts_.at(tree); }
    [[nodiscard]] std::size_t trees() const { return verdicts_.size(); }

  private:
    std::map<Save, std::optional<RankState>> expected_;
    std::map<Tree, Verdict> verdicts_;
    std::set<std::string> names_; ///< of trees from which it has continued
};

/// The past of a writer: the checkpoints that were begun, in order, and how many of these must
/// exist because they were reported as done.
struct History {
    std::vector<Save> begun;
    std::size_t reported = 0;
};

struct Tally {
    std::size_t cuts = 0;
    std::size_t outcomes = 0;
    std::string finding; ///< the first: where the writer ended, and what was found; empty if all is well
};

/// Ends the writer at every cut, and the machine with it.
void end_everywhere(Tally& tally, Reader& reader, const Files& files, const std::vector<Save>& saves,
                    const History& history = {});

[[nodiscard]] bool same(const RankState& a, const RankState& b);

} // namespace truestep::distributed::scape::crash
