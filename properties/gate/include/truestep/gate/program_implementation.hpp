// A program of any language as an implementation of some system. The system defines its name, what it
// shows, and how a case runs.
#pragma once

#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <truestep/gate/implementation.hpp>
#include <truestep/gate/programs.hpp>

namespace truestep::gate {

/// A program's description of itself, for any system.
struct ProgramHello {
    std::string name;
    verify::LevelKind level = verify::LevelKind::exact;
    std::set<std::string> shows; ///< among its system's views
    Unsupported unsupported;

    /// Leaves out properties and features. The first reason for each stays.
    void without(const std::vector<std::string>& what, const std::string& why) {
        for (const std::string& one : what)
            unsupported.try_emplace(one, why);
    }
};

/// A system's description of its programs.
struct ProgramSystem {
    std::string name;
    int least_workers = 1;               ///< the size of the world whose first rank answers for all
    std::vector<std::string> views;      ///< all that exist; the first is required
    std::vector<std::string> properties; ///< those that may be left out
    /// Leaves out what follows from the answer, and what does not apply to programs. May throw
    /// truestep::Error.
    std::function<void(const Programs::Json& answer, ProgramHello& hello)> leave_out;
};

template <class Properties>
[[nodiscard]] std::vector<std::string> names_of(const Properties& properties) {
    std::vector<std::string> names;
    names.reserve(std::size(properties));
    for (const auto& property : properties)
        names.push_back(property.name);
    return names;
}

/// The program's description of itself; the settings override it. Throws truestep::Error.
[[nodiscard]] ProgramHello greeted(Programs& programs, const ProgramSettings& settings,
                                   const ProgramSystem& system);
/// An empty folder for checkpoints, the same on all ranks.
[[nodiscard]] std::filesystem::path empty_folder(const Group& group, const std::string& name);

/// `Base`: the system's class of implementations.
template <class Base>
class ProgramImplementation : public Base {
  public:
    ProgramImplementation(const ProgramSettings& settings, std::shared_ptr<const Group> group,
                          const ProgramSystem& system)
        : group_(std::move(group)), programs_(settings, system.name, *group_),
          least_workers_(system.least_workers), hello_(greeted(programs_, settings, system)) {}

    std::string name() const override { return hello_.name; }
    std::string communicator() const override { return "program"; }
    bool communicates() const override { return false; }
    verify::LevelKind level() const override { return hello_.level; }
    bool takes(int workers) const override {
        return workers >= least_workers_ && workers <= Programs::most_workers;
    }
    /// Its processes belong to this process, from case to case.
    bool stays_here() const override { return true; }
    std::string unavailable() const override { return programs_.gave_up(); }
    Unsupported unsupported() const override { return hello_.unsupported; }

  protected:
    [[nodiscard]] const Group& group() const { return *group_; }
    [[nodiscard]] Programs& programs() const { return programs_; }
    [[nodiscard]] const ProgramHello& hello() const { return hello_; }

  private:
    std::shared_ptr<const Group> group_;
    mutable Programs programs_; ///< keeps processes, but nothing of a case
    int least_workers_;
    ProgramHello hello_;
};

} // namespace truestep::gate
