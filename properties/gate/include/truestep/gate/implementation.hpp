#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/group.hpp>
#include <truestep/verify/level.hpp>

namespace truestep::gate {

/// What an implementation cannot be asked, and why: a property ("restart.same") or all whose names begin so
/// ("restart"). It is SKIPPED with the reason, never FAILED.
using LeftOut = std::map<std::string, std::string>;

/// Whatever can be put to the test. How it is run is its system's own.
class Implementation {
  public:
    virtual ~Implementation() = default;
    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] virtual std::string communicator() const = 0; ///< "in_process", "mpi", or "-" for none
    /// What it claims and is held to: EXACT or REL.
    [[nodiscard]] virtual verify::LevelKind level() const = 0;
    /// Ways to split the same work, which must give the same bits; the first is the default.
    [[nodiscard]] virtual std::vector<std::string> variants() const { return {"default"}; }
    /// Whether its messages go through a communicator that counts and disturbs them.
    [[nodiscard]] virtual bool communicates() const { return communicator() != "-"; }
    /// The numbers of workers that it can be run with here.
    [[nodiscard]] virtual bool takes(int workers) const = 0;
    /// Why it cannot be run here, in one line, or empty.
    [[nodiscard]] virtual std::string unavailable() const { return {}; }
    /// The devices and libraries that it runs on, in one line; empty for the processor.
    [[nodiscard]] virtual std::string runs_on() const { return {}; }
    /// Whether it cannot be run by a process that was forked off: the context of a device outlives no fork.
    [[nodiscard]] virtual bool stays_here() const { return !runs_on().empty(); }
    [[nodiscard]] virtual LeftOut left_out() const { return {}; }
    /// The name of another that shares all but a part of its code with this one, or empty. Where the other
    /// is put to the test as well, half as many cases as the other's do for this one, unless a number is
    /// asked for. Never in a circle.
    [[nodiscard]] virtual std::string like() const { return {}; }
    /// True on all ranks if it is on any.
    [[nodiscard]] virtual bool any(bool here) const { return here; }
};

using Implementations = std::vector<std::shared_ptr<const Implementation>>;

} // namespace truestep::gate
