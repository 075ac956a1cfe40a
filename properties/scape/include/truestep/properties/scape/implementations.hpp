// The implementations of SCAPE and AdamS that this build has, and the interface for others.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/group.hpp>
#include <truestep/gate/programs.hpp>
#include <truestep/properties/scape/implementation.hpp>

namespace truestep::properties::scape {

using gate::Group;
using gate::make_thread_group;
using gate::scratch_folder;

/// Section 4 by the reference, all ranks in lockstep. The gate tests it like the others, and compares them
/// with it.
[[nodiscard]] std::shared_ptr<const Implementation> reference_implementation();

/// A rank whose data is not in the host's memory, with a communicator for it.
class Place {
  public:
    virtual ~Place() = default;
    [[nodiscard]] virtual distributed::Communicator& communicator() = 0;
    /// `counted` is that communicator with the gate's counters.
    [[nodiscard]] virtual std::unique_ptr<RankUnderTest> make(const Setup& setup,
                                                              distributed::Communicator& counted) = 0;
};
using MakePlace =
    std::function<std::unique_ptr<Place>(const Setup& setup, distributed::Communicator& ranks)>;

/// An implementation whose ranks are made one by one and talk through a communicator.
struct ImplementationSpec {
    std::string name;
    verify::LevelKind level = verify::LevelKind::exact;
    problem::Algorithm algorithm = problem::Algorithm::scape;
    std::vector<std::string> variants{"default"};
    MakeRank make{};
    MakePlace place{}; ///< in place of `make`
    /// Why it is unavailable here, or empty.
    std::string unavailable{};
    /// The most ranks for which there is room here.
    int most_workers = std::numeric_limits<int>::max();
    /// The devices and libraries on which its figures and bits may depend.
    std::string runs_on{};
    /// Features that it lacks, and why: {{"restart", "no checkpoints yet"}}. It is skipped, never failed;
    /// without "restart" the state machine's scripts have no restarts.
    gate::Unsupported unsupported{};
    /// The name of another implementation that differs from it by a detail only, such as the order of its
    /// sums.
    std::string like{};
    /// Whether its candidates have accumulate() and bucket(). Otherwise gradients come at once, and the
    /// properties of parts are skipped.
    bool takes_parts = false;
    /// Whether they take payloads of bf16 and e5m2 (section 21). Otherwise cases have fp32.
    bool rounds_payloads = false;
    /// Whether they add in groups (section 32). Otherwise cases have none.
    bool adds_groups = false;
    /// Whether its ranks compare what they were given, and do not begin if that differs or is impossible
    /// (section 8.14). Otherwise they are not given such input.
    bool compares_starts = false;
    /// Whether their errors name what differs as ours do: "beta2", "partition".
    bool names_differences = false;
    /// Whether its candidates have begin_at(). Otherwise properties that need such a state are skipped.
    bool takes_states = false;
    /// Whether all checkpoints of a run may go to one folder, with leftovers of others in it. Otherwise
    /// each has an empty one.
    bool shares_folders = false;
    /// The limit for standing cases. Above the usual limit optimized code takes seconds, and so does the
    /// reference.
    Index most_parameters = usual_parameters;
};
[[nodiscard]] std::shared_ptr<const Implementation> on_ranks(ImplementationSpec ranked,
                                                             std::shared_ptr<const Group> group);

/// A program of any language, one process per rank (docs/program-protocol.md). Throws truestep::Error or
/// gate::ProgramFailed if it cannot be started.
[[nodiscard]] std::shared_ptr<const Implementation>
program_implementation(const gate::ProgramSettings& settings, const std::shared_ptr<const Group>& group);

/// All implementations of this build, over the group's ranks. The reference needs no ranks, and comes first
/// if the group consists of threads. Callers may append others.
[[nodiscard]] std::vector<std::shared_ptr<const Implementation>>
all_implementations(const std::shared_ptr<const Group>& group);

} // namespace truestep::properties::scape
