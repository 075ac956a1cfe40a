// What the gate asks of any implementation under test.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/group.hpp>
#include <truestep/verify/level.hpp>

namespace truestep::gate {

/// Properties that an implementation does not support, and why: a property ("restart.same") or all whose
/// names begin so ("restart"). Those are SKIPPED with the reason, never FAILED.
using Unsupported = std::map<std::string, std::string>;

/// Any implementation under test. Its system defines how it is run.
class Implementation {
  public:
    virtual ~Implementation() = default;
    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] virtual std::string communicator() const = 0; ///< "in_process", "mpi", or "-" for none
    /// The level that it claims and is held to: EXACT or REL.
    [[nodiscard]] virtual verify::LevelKind level() const = 0;
    /// Ways to split the same work, which must give the same bits; the first is the default.
    [[nodiscard]] virtual std::vector<std::string> variants() const { return {"default"}; }
    /// Whether its messages go through a communicator that counts and disturbs them.
    [[nodiscard]] virtual bool communicates() const { return communicator() != "-"; }
    /// Whether it can run here with this number of workers.
    [[nodiscard]] virtual bool takes(int workers) const = 0;
    /// Why it is unavailable here, in one line, or empty.
    [[nodiscard]] virtual std::string unavailable() const { return {}; }
    /// The devices and libraries that it runs on, in one line; empty for the processor.
    [[nodiscard]] virtual std::string runs_on() const { return {}; }
    /// Whether it has to run in this process: the context of a device does not survive a fork.
    [[nodiscard]] virtual bool stays_here() const { return !runs_on().empty(); }
    [[nodiscard]] virtual Unsupported unsupported() const { return {}; }
    /// The name of another implementation that shares all code but a part with this one, or empty. If the
    /// other is tested, too, this one gets half as many cases, unless a number is given. There must be no
    /// circle.
    [[nodiscard]] virtual std::string like() const { return {}; }
    /// Whether it is true on any rank; the same answer everywhere.
    [[nodiscard]] virtual bool any(bool here) const { return here; }
};

using Implementations = std::vector<std::shared_ptr<const Implementation>>;

} // namespace truestep::gate
