// MAPL's implementations as the gate runs them, and what it records of each rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/group.hpp>
#include <truestep/gate/group_implementation.hpp>

#include "end_factory.hpp"
#include "scenario.hpp"

namespace truestep::properties::mapl {

/// The recording of one rank. It is the receiver of the boundary before it and the sender of the one
/// behind it.
struct RankRecording {
    /// Vectors by step, micro-batch and name: X, Xhat, ids (halves_of() what the receiver has), G, dX. By
    /// step, before it: s.A, s.m, s.E, s.C, s.L of the sender and r.A, r.E, r.C of the receiver; after it:
    /// s.gA, s.dE, r.dE, and dW of the stage. s.gA is this replica's own gradient, s.gM the one that A has
    /// followed. Of a trainer: all its parameters w before a step, and their gradient g.
    std::map<std::string, Floats> values;
    /// Every byte that was sent to a neighbour, by time and stage; for a "mean", by replica.
    std::map<std::string, std::vector<std::uint8_t>> wire;
    /// The message with which a call was refused, "" if it was not; "ended": the message with which a stage
    /// ended early.
    std::map<std::string, std::string> refused;
    std::map<std::string, EndState> states; ///< s and r, at the end

    void fields(auto& visit) { visit(values, wire, refused, states); }
    [[nodiscard]] const Floats& at(const std::string& key) const;
};

/// Each id as two numbers that fp32 holds.
[[nodiscard]] Floats halves_of(const std::vector<Id>& ids);
[[nodiscard]] std::string key(Index step, Index micro, const std::string& what);
[[nodiscard]] std::string key(Index step, const std::string& what);
/// A key of `wire`: "forward" or "backward" for a micro-batch, "end" or "mean" for a step.
[[nodiscard]] std::string wire_key(const std::string& when, int peer);

/// An implementation of MAPL that properties can judge.
class Implementation : public gate::Implementation {
  public:
    /// The recording of each rank. Throws where a rank failed.
    [[nodiscard]] virtual std::vector<RankRecording> run(const Scenario& scenario) const = 0;
    [[nodiscard]] virtual bool names_differences() const { return false; }
    [[nodiscard]] virtual bool checks_messages() const { return false; }
};

/// An implementation on a group's ranks.
class GroupImplementation final : public gate::GroupImplementation<Implementation> {
  public:
    /// Makes the implementation's parts for a rank of the group.
    using Makes = std::function<EndFactory(distributed::Peers& ranks)>;
    GroupImplementation(std::string name, Makes makes, std::shared_ptr<const gate::Group> group,
                        gate::Placement seat = {});
    /// For parts that are the same on all ranks.
    GroupImplementation(std::string name, EndFactory subjects, std::shared_ptr<const gate::Group> group,
                        gate::Placement seat = {});

    bool takes(int workers) const override {
        return workers >= 2 && gate::GroupImplementation<Implementation>::takes(workers);
    }
    bool names_differences() const override { return placement().names_differences; }
    bool checks_messages() const override { return placement().checks_messages; }

    /// The recordings are the same everywhere.
    [[nodiscard]] std::vector<RankRecording> run(const Scenario& scenario) const override;

  private:
    Makes makes_;
};

} // namespace truestep::properties::mapl
