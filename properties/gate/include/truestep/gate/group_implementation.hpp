// An implementation on a group's ranks, for any system: its name, and where it runs.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <truestep/gate/implementation.hpp>

namespace truestep::gate {

/// Where an implementation can run, on what, and what it claims.
struct Placement {
    verify::LevelKind level = verify::LevelKind::exact;
    Unsupported unsupported{};
    std::string unavailable{}; ///< why it cannot be run here, in one line, or empty
    std::string runs_on{};     ///< devices and libraries, in one line
    int most_workers = std::numeric_limits<int>::max(); ///< for example, the number of devices
    bool names_differences = true; ///< a refused start says in which setting ranks differ
    bool checks_messages = false; ///< of MAPL, and the host can read them, so that the gate can damage some
};

/// Where the code of devices can run: `form` is a gpu::Form, which the gate does not know.
[[nodiscard]] Placement placement_of(const auto& form) {
    return {.unavailable = form.unavailable, .runs_on = form.runs_on, .most_workers = form.most_ranks};
}

/// `Base`: the system's class of implementations.
template <class Base>
class GroupImplementation : public Base {
  public:
    GroupImplementation(std::string name, std::shared_ptr<const Group> group, Placement placement = {})
        : name_(std::move(name)), group_(std::move(group)), placement_(std::move(placement)) {}

    std::string name() const override { return name_; }
    std::string communicator() const override { return group_->name(); }
    verify::LevelKind level() const override { return placement_.level; }
    Unsupported unsupported() const override { return placement_.unsupported; }
    bool takes(int workers) const override {
        return workers <= placement_.most_workers && group_->takes(workers);
    }
    std::string unavailable() const override { return placement_.unavailable; }
    std::string runs_on() const override { return placement_.runs_on; }
    bool any(bool here) const override { return group_->any(here); }

  protected:
    [[nodiscard]] const Group& group() const { return *group_; }
    [[nodiscard]] const Placement& placement() const { return placement_; }

  private:
    std::string name_;
    std::shared_ptr<const Group> group_;
    Placement placement_;
};

} // namespace truestep::gate
