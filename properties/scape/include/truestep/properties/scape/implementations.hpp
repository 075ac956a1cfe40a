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

/// Section 4 by the reference, all ranks in lockstep. Given to the gate as one of the implementations, and
/// what the others are compared with.
[[nodiscard]] std::shared_ptr<const Implementation> reference_implementation();

/// A rank whose data stands elsewhere than in the host's memory, with a communicator for that.
class Place {
  public:
    virtual ~Place() = default;
    [[nodiscard]] virtual distributed::Communicator& communicator() = 0;
    /// `counted` is that communicator, under the gate's eyes.
    [[nodiscard]] virtual std::unique_ptr<Candidate> make(const Setup& setup,
                                                          distributed::Communicator& counted) = 0;
};
using MakePlace =
    std::function<std::unique_ptr<Place>(const Setup& setup, distributed::Communicator& ranks)>;

/// An implementation whose ranks are made one by one and talk through a communicator.
struct Ranked {
    std::string name;
    verify::LevelKind level = verify::LevelKind::exact;
    problem::Algorithm algorithm = problem::Algorithm::scape;
    std::vector<std::string> variants{"default"};
    MakeCandidate make{};
    MakePlace place{}; ///< in place of `make`
    /// Why it cannot be run here, or empty.
    std::string unavailable{};
    /// The most ranks that it has room for here.
    int most_workers = std::numeric_limits<int>::max();
    /// What its figures and bits may depend on: devices, libraries.
    std::string runs_on{};
    /// What it cannot be asked, and why: {{"restart", "no checkpoints yet"}}. Skipped, never failed;
    /// without "restart" the state machine's scripts come without restarts.
    gate::LeftOut left_out{};
    /// Which of the others it shares all but a detail with, the order of its sums, say.
    std::string like{};
    /// Whether its candidates have accumulate() and bucket(). Where not, gradients come at once, and the
    /// properties of parts are skipped.
    bool takes_parts = false;
    /// Whether they take payloads of bf16 and e5m2 (section 21). Where not, cases come with fp32.
    bool rounds_payloads = false;
    /// Whether they add in groups (section 32). Where not, cases come without.
    bool adds_groups = false;
    /// Whether its ranks compare what each was given, and none begins where that differs or cannot be
    /// (section 8.14). Where not, nobody gives them such.
    bool compares_starts = false;
    /// Whether its candidates have begin_at(). Where not, what only such a state shows is skipped.
    bool takes_states = false;
    /// Whether all checkpoints of a run may go to one folder, in which others have left theirs. Where not,
    /// each has an empty one.
    bool shares_folders = false;
    /// Of the cases that are tried in every run. More than is usual takes optimized code seconds, and the
    /// reference beside it.
    Index most_parameters = usual_parameters;
};
[[nodiscard]] std::shared_ptr<const Implementation> on_ranks(Ranked ranked,
                                                             std::shared_ptr<const Group> group);

/// A program of any language, a process a rank (docs/program-protocol.md). Throws truestep::Error or
/// gate::ProgramFailed if it cannot be started.
[[nodiscard]] std::shared_ptr<const Implementation>
program_implementation(const gate::ProgramSettings& settings, const std::shared_ptr<const Group>& group);

/// All that this build has, over the group's ranks; the reference needs none and comes first where the
/// group is of threads. Those who know more implementations add to the list.
[[nodiscard]] std::vector<std::shared_ptr<const Implementation>>
all_implementations(const std::shared_ptr<const Group>& group);

} // namespace truestep::properties::scape
