#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <scape/distributed/counting_peers.hpp>
#include <scape/gasloc/worker.hpp>
#include <scape/gate/group.hpp>
#include <scape/gate/implementation.hpp>

#include "scenario.hpp"

namespace scape::gasloc {

/// What one worker was seen to do in one round.
struct Seen {
    State state; ///< after the round; that after a restart stands in `begun`
    bool skipped = false;
    std::map<int, std::uint64_t> sent; ///< parameters, by the worker that they went to
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
};

/// A worker that is put to the test: the class to implement. `parameters`, `step` and `round` are those of
/// gasloc::Worker.
class Subject {
  public:
    virtual ~Subject() = default;
    virtual bool step(std::span<const float> gradient, double learning_rate) = 0;
    /// Whether the round was a skipped one. Throws distributed::Aborted where a neighbour did not come, and
    /// Halted.
    virtual bool round() = 0;
    [[nodiscard]] virtual State state() const = 0;
    /// Its part of a checkpoint.
    virtual void save(const std::filesystem::path& folder, int rank, int workers) const = 0;
};

/// How its workers come into being. Both are called on all ranks, and throw scape::Error where ranks or
/// settings do not fit.
struct Subjects {
    std::function<std::unique_ptr<Subject>(const Settings&, std::span<const float> parameters,
                                           distributed::Peers&, int threads)>
        start;
    /// From the last checkpoint in a folder, of any number of workers.
    std::function<std::unique_ptr<Subject>(const Settings&, const std::filesystem::path& folder,
                                           distributed::Peers&, int threads)>
        restart;
    /// Inner steps and gradients as a worker takes them. Mistakes may be in it.
    std::function<void(Subject&, const Scenario&, int worker, Index round)> train;
};

class Candidate final : public gate::Implementation {
  public:
    Candidate(std::string name, Subjects subjects, std::shared_ptr<const gate::Group> group);

    std::string name() const override { return name_; }
    std::string communicator() const override { return group_->name(); }
    verify::LevelKind level() const override { return verify::LevelKind::exact; }
    bool takes(int workers) const override { return group_->takes(workers); }
    bool any(bool here) const override { return group_->any(here); }

    /// What each worker did, the same everywhere. Throws where it is none of what may happen.
    [[nodiscard]] std::vector<Life> run(const Scenario& scenario) const;
    /// Whether all workers are threads of this process.
    [[nodiscard]] bool in_process() const { return group_->name() == "in_process"; }

  private:
    void play(const Scenario& scenario, Index first, Index last, const std::filesystem::path& folder,
              distributed::Peers& peers, Life& life) const;

    std::string name_;
    Subjects subjects_;
    std::shared_ptr<const gate::Group> group_;
    mutable Index runs_ = 0; ///< each has a folder of its own
};

/// What trains as it should.
void train(Subject& subject, const Scenario& scenario, int worker, Index round);
/// distributed/gasloc.
[[nodiscard]] Subjects workers();

} // namespace scape::gasloc
