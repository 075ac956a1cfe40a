#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <truestep/distributed/counting_peers.hpp>
#include <truestep/gate/group.hpp>
#include <truestep/properties/gasloc/gate.hpp>

#include "scenario.hpp"

namespace truestep::properties::gasloc {

/// What one worker was seen to do in one round.
struct Seen {
    State state; ///< after the round; that after a restart stands in `begun`
    bool skipped = false;
    std::map<int, std::uint64_t> sent; ///< parameters, by the worker that they went to

    void fields(auto& visit) { visit(state, skipped, sent); }
};

/// Of one worker in a whole run.
struct Life {
    std::map<Index, Seen> rounds; ///< those that it has ended
    State begun;                  ///< as it was after a restart
    bool restarted = false;
    Index halted = 0;         ///< in this round, since its model was not finite; 0: it did not
    Index left_alone = 0;     ///< in this round, since a neighbour did not come
    std::string reason;       ///< what it said then
    std::string refused;      ///< why it did not begin
    std::uint64_t others = 0; ///< bytes that were no parameters, after it had begun

    void fields(auto& visit) {
        visit(rounds, begun, restarted, halted, left_alone, reason, refused, others);
    }
};

/// How its workers come into being. Both are called on all ranks, and throw truestep::Error where ranks or
/// settings do not fit. `threads` is the case's, for whoever can share work out.
struct Subjects {
    Ranked::Start start;
    Ranked::Restart restart; ///< from the last checkpoint in a folder, of any number of workers
    /// Inner steps and gradients as a worker takes them. Mistakes may be in it.
    std::function<void(Subject&, const Scenario&, int worker, Index round)> train;
    /// Peers of the rank's own, where what it sends never comes to the group's. The gate counts around
    /// them.
    std::shared_ptr<distributed::Peers> peers{};
};

/// Where it can be run, and on what.
struct Seat {
    verify::LevelKind level = verify::LevelKind::exact; ///< what it claims
    gate::LeftOut left_out{};
    std::string unavailable{}; ///< why it cannot be run here, or empty
    std::string runs_on{};     ///< devices and libraries
    int most_workers = std::numeric_limits<int>::max();
};

/// Which parts of a worker's state can be seen, beside theta.
struct Visible {
    bool before = true;
    bool first_moment = true;
    bool second_moment = true;

    [[nodiscard]] bool all() const { return before && first_moment && second_moment; }
};

/// Whatever properties are asked of.
class Candidate : public gate::Implementation {
  public:
    /// What each worker did, the same everywhere. Throws where it is none of what may happen.
    [[nodiscard]] virtual std::vector<Life> run(const Scenario& scenario) const = 0;
    /// Whether all workers are threads of this process.
    [[nodiscard]] virtual bool in_process() const = 0;
    [[nodiscard]] virtual Visible visible() const { return {}; }
};

/// Workers in C++ that talk through peers.
class Workers final : public Candidate {
  public:
    Workers(std::string name, Subjects subjects, std::shared_ptr<const gate::Group> group, Seat seat = {});
    /// Whose ranks have places of their own: each is asked for, on its thread, before its workers are.
    Workers(std::string name, std::function<Subjects(distributed::Peers&)> subjects,
            std::shared_ptr<const gate::Group> group, Seat seat);

    std::string name() const override { return name_; }
    std::string communicator() const override { return group_->name(); }
    verify::LevelKind level() const override { return seat_.level; }
    gate::LeftOut left_out() const override { return seat_.left_out; }
    bool takes(int workers) const override {
        return group_->takes(workers) && workers <= seat_.most_workers;
    }
    std::string unavailable() const override { return seat_.unavailable; }
    std::string runs_on() const override { return seat_.runs_on; }
    bool any(bool here) const override { return group_->any(here); }

    [[nodiscard]] std::vector<Life> run(const Scenario& scenario) const override;
    [[nodiscard]] bool in_process() const override { return group_->name() == "in_process"; }

  private:
    void play(const Scenario& scenario, Index first, Index last, const std::filesystem::path& folder,
              distributed::Peers& peers, Life& life) const;

    std::string name_;
    std::function<Subjects(distributed::Peers&)> subjects_;
    std::shared_ptr<const gate::Group> group_;
    Seat seat_;
    mutable Index runs_ = 0; ///< each has a folder of its own
};

/// What trains as it should.
void train(Subject& subject, const Scenario& scenario, int worker, Index round);

} // namespace truestep::properties::gasloc
