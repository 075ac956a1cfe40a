// Implementations of dense training as the gate runs them, and what it records of each rank.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/dense/backend.hpp>
#include <truestep/gate/group.hpp>
#include <truestep/gate/group_implementation.hpp>

#include "case.hpp"

namespace truestep::properties::dense {

/// What a rank owns: coordinates, and the packed values of its state on them.
struct Shard {
    Index steps = 0;
    std::vector<std::array<Index, 2>> pieces; ///< begin and end
    Floats w;
    Floats m; ///< empty if no group has one
    Floats v; ///< empty if no group has one

    void fields(auto& visit) { visit(steps, pieces, w, m, v); }
};

/// What was seen of one rank after a step; step 0 is the start, and each restart has its own.
struct StepRecord {
    Floats parameters; ///< all of them, as the next gradient sees them
    Shard shard;
    std::uint8_t refused = 0;
    std::uint64_t gradients_sent = 0;
    std::uint64_t parameters_sent = 0;

    void fields(auto& visit) { visit(parameters, shard, refused, gradients_sent, parameters_sent); }
};

/// The recording of one rank.
struct RankRecord {
    std::map<Index, StepRecord> steps;
    std::map<Index, StepRecord> restarted; ///< with the step before it
    std::string tried;                     ///< why a step was refused that then was tried again
    std::string ended;                     ///< why it ended early: aborted, halted or refused
    std::uint8_t halted = 0;
    std::uint8_t failed = 0; ///< its link was cut

    void fields(auto& visit) { visit(steps, restarted, tried, ended, halted, failed); }
};

/// One rank of an implementation.
class RankUnderTest {
  public:
    virtual ~RankUnderTest() = default;
    virtual void add(std::span<const float> gradient) = 0;
    /// False if the step was refused. Throws distributed::Aborted, or Halted.
    virtual bool step(const std::vector<double>& rates) = 0;
    [[nodiscard]] virtual Floats parameters() const = 0;
    [[nodiscard]] virtual Shard shard() const = 0;
    virtual void save(const std::filesystem::path& folder) const = 0;
};

/// An implementation says so when it stops on a state that is not finite.
class Halted : public std::runtime_error {
  public:
    explicit Halted(const std::string& text) : std::runtime_error(text) {}
};

using Begin = std::function<std::unique_ptr<RankUnderTest>(const Beginning&, distributed::Communicator&)>;

/// The moments that an implementation shows. Parameters are always visible.
struct VisibleState {
    bool first_moment = true;
    bool second_moment = true;
};

/// An implementation under test.
class Implementation : public gate::Implementation {
  public:
    /// The recording of each rank, the same everywhere.
    [[nodiscard]] virtual std::vector<RankRecord> run(const Scenario& scenario) const = 0;
    [[nodiscard]] virtual VisibleState visible() const { return {}; }
};

/// An implementation on a group's ranks.
class GroupImplementation final : public gate::GroupImplementation<Implementation> {
  public:
    GroupImplementation(std::string name, Begin begin, std::shared_ptr<const gate::Group> group,
                        gate::Placement placement = {});

    std::vector<RankRecord> run(const Scenario& scenario) const override;

  private:
    void play(const Scenario& scenario, Index first, Index last, const std::filesystem::path& from,
              const std::filesystem::path& to, distributed::Communicator& ranks, RankRecord& record) const;

    Begin begin_;
    mutable int runs_ = 0; ///< for the names of folders
};

/// Makes a rank's backend.
using MakeBackend = std::function<std::unique_ptr<distributed::dense::Backend>(int rank, int threads)>;
/// The workers of distributed/dense over a backend.
[[nodiscard]] Begin workers(MakeBackend backend);

} // namespace truestep::properties::dense
