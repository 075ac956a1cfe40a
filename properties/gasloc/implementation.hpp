// GASLoC's implementations as the gate runs them, and what it records of each worker.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <truestep/distributed/counting_peers.hpp>
#include <truestep/gate/group.hpp>
#include <truestep/gate/group_implementation.hpp>
#include <truestep/properties/gasloc/gate.hpp>

#include "scenario.hpp"

namespace truestep::properties::gasloc {

/// The recording of one worker in one round.
struct RoundRecording {
    State state; ///< after the round; the one after a restart is in `begun`
    bool skipped = false;
    std::map<int, std::uint64_t> sent; ///< parameters, by receiving worker
    std::vector<Index>
        told{}; ///< the round's number, inner steps, neighbours and bytes, by its own account

    void fields(auto& visit) { visit(state, skipped, sent, told); }
};

/// The recording of one worker over a whole run.
struct RankRecording {
    std::map<Index, RoundRecording> rounds; ///< the rounds that it completed
    State begun;                            ///< the state after a restart
    bool restarted = false;
    Index halted = 0;     ///< the round in which it halted as its model was not finite; 0: it did not
    Index left_alone = 0; ///< the round in which a neighbour did not come; 0: all came
    std::string reason;   ///< its message then
    std::vector<float> theta_after_halt; ///< which users look at; empty if it shows none
    std::string refused;                 ///< why it did not begin
    std::string taken;                   ///< what it should have refused, and did not
    std::uint64_t others = 0;            ///< bytes that were no parameters, sent after it had begun

    /// The round in which it ended early; 0: it did not.
    [[nodiscard]] Index ended() const { return std::max(halted, left_alone); }
    /// Why it did not begin, or ended.
    [[nodiscard]] const std::string& why() const { return refused.empty() ? reason : refused; }

    void fields(auto& visit) {
        visit(rounds, begun, restarted, halted, left_alone, reason, theta_after_halt, refused, taken,
              others);
    }
};

[[nodiscard]] inline bool any_ended(const std::vector<RankRecording>& lives) {
    return std::ranges::any_of(lives, [](const RankRecording& life) { return life.ended() > 0; });
}

/// How the workers of an implementation are made. Both functions are called on all ranks, and throw
/// truestep::Error where ranks or settings do not fit. `threads` is the case's, for workers that can share
/// work out.
struct RankFactory {
    ImplementationSpec::Start start;
    ImplementationSpec::Restart restart; ///< from the last checkpoint in a folder, of any number of workers
    /// Takes a worker's inner steps with their gradients. Known bugs outside the worker are planted here.
    std::function<void(RankUnderTest&, const Scenario&, int worker, Index round)> train;
    /// The rank's own peers, for ranks whose messages do not go through the group. The gate counts around
    /// them.
    std::shared_ptr<distributed::Peers> peers{};
};

/// Which parts of a worker's state are visible, beside theta.
struct VisibleState {
    bool before = true;
    bool first_moment = true;
    bool second_moment = true;

    [[nodiscard]] bool all() const { return before && first_moment && second_moment; }
};

/// A part of a worker's state, by the words of findings and by the name that programs know it by.
struct StatePart {
    const char* words;
    const char* name;
    std::vector<float> State::*values;
    bool VisibleState::*visible = nullptr; ///< none: it always is

    [[nodiscard]] bool is_in(const VisibleState& shown) const {
        return visible == nullptr || shown.*visible;
    }
};
inline constexpr StatePart state_parts[]{
    {"theta", "parameters", &State::theta},
    {"what goes into the momentum", "before", &State::before, &VisibleState::before},
    {"the first moment", "first_moment", &State::m, &VisibleState::first_moment},
    {"the second moment", "second_moment", &State::v, &VisibleState::second_moment}};

/// Any implementation of GASLoC that properties can judge.
class Implementation : public gate::Implementation {
  public:
    /// The recording of each worker, the same everywhere. Throws where a run ended in a way that is not
    /// allowed.
    [[nodiscard]] virtual std::vector<RankRecording> run(const Scenario& scenario) const = 0;
    /// Whether all workers are threads of this process.
    [[nodiscard]] virtual bool in_process() const = 0;
    [[nodiscard]] virtual VisibleState visible() const { return {}; }
    /// Whether errors name the setting in which workers differ, and who has halted.
    [[nodiscard]] virtual bool names_differences() const { return false; }
};

/// An implementation in C++ whose workers talk through peers.
class Workers final : public gate::GroupImplementation<Implementation> {
  public:
    Workers(std::string name, RankFactory subjects, std::shared_ptr<const gate::Group> group,
            gate::Placement seat = {});
    /// For ranks with places of their own, such as a device each: `subjects` is called on each rank's
    /// thread, before the rank's workers are made.
    Workers(std::string name, std::function<RankFactory(distributed::Peers&)> subjects,
            std::shared_ptr<const gate::Group> group, gate::Placement seat);

    [[nodiscard]] std::vector<RankRecording> run(const Scenario& scenario) const override;
    [[nodiscard]] bool in_process() const override { return group().name() == "in_process"; }
    [[nodiscard]] bool names_differences() const override { return placement().names_differences; }

  private:
    void play(const Scenario& scenario, Index first, Index last, const std::filesystem::path& folder,
              distributed::Peers& peers, RankRecording& life) const;

    std::function<RankFactory(distributed::Peers&)> subjects_;
    mutable Index runs_ = 0; ///< numbers the folders, one for each run
};

/// Trains without any known bug.
void train(RankUnderTest& subject, const Scenario& scenario, int worker, Index round);

} // namespace truestep::properties::gasloc
