// A program of any language as an implementation of some system. The system says what it is called, what
// there is to see of it, and how a case goes.
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

/// What a program says of itself, of whatever system.
struct ProgramHello {
    std::string name;
    verify::LevelKind level = verify::LevelKind::exact;
    std::set<std::string> shows; ///< of its system's views
    LeftOut left_out;
};

/// What a system says of its programs.
struct ProgramSystem {
    std::string name;
    int least_workers = 1;               ///< of the world whose first rank answers for all
    std::vector<std::string> views;      ///< all that there are; the first is needed
    std::vector<std::string> properties; ///< what may be left out
    /// Leaves out what follows from the answer, and what no program can be asked. May throw
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

/// What the program says of itself; the settings have the last word. Throws truestep::Error.
[[nodiscard]] ProgramHello greeted(Programs& programs, const ProgramSettings& settings,
                                   const ProgramSystem& system);
/// A folder for checkpoints, as all ranks of a program are given it.
[[nodiscard]] std::filesystem::path empty_folder(const Group& group, const std::string& name);

/// `Base`: what the properties of its system are asked of.
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
    /// Its processes are this one's, from case to case.
    bool stays_here() const override { return true; }
    std::string unavailable() const override { return programs_.gave_up(); }
    LeftOut left_out() const override { return hello_.left_out; }

  protected:
    [[nodiscard]] const Group& group() const { return *group_; }
    [[nodiscard]] Programs& programs() const { return programs_; }
    [[nodiscard]] const ProgramHello& hello() const { return hello_; }

  private:
    std::shared_ptr<const Group> group_;
    mutable Programs programs_; ///< which remembers nothing of a case that another would see
    int least_workers_;
    ProgramHello hello_;
};

} // namespace truestep::gate
