#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <truestep/distributed/gasloc/state.hpp>
#include <truestep/distributed/gasloc/worker.hpp>
#include <truestep/distributed/peers.hpp>
#include <truestep/gate/implementation.hpp>
#include <truestep/gate/system.hpp>
#include <truestep/problem/gasloc/settings.hpp>
#include <truestep/verify/level.hpp>

namespace truestep::properties::gasloc {

using namespace problem::gasloc;
using namespace distributed::gasloc;

/// One worker of an implementation that is put to the test: the class to implement.
class Subject {
  public:
    virtual ~Subject() = default;
    /// An inner step (section 13.2). A gradient that is not finite makes the round a skipped one.
    virtual bool step(std::span<const float> gradient, double learning_rate) = 0;
    /// Drift, gossip and momentum (section 13.3 to 13.5). Whether the round was a skipped one. Throws
    /// distributed::Aborted where a neighbour did not come, and distributed::gasloc::Halted where theta is
    /// not finite.
    virtual bool round() = 0;
    /// After a round: theta, what the next momentum is measured from, the inner moments, and the counts.
    [[nodiscard]] virtual State state() const = 0;
    /// Its part of a checkpoint. Called on all workers, each when it gets there.
    virtual void save(const std::filesystem::path& folder, int rank, int workers) const = 0;
};

/// An implementation of GASLoC whose workers are made one by one and talk through peers. What they send
/// there is counted, held back and delayed.
struct Ranked {
    using Start = std::function<std::unique_ptr<Subject>(const Settings&, std::span<const float> parameters,
                                                         distributed::Peers&, int threads)>;
    using Restart = std::function<std::unique_ptr<Subject>(
        const Settings&, const std::filesystem::path& folder, distributed::Peers&, int threads)>;

    std::string name;
    /// What it claims: to the bit, or within the bound on rounding.
    verify::LevelKind level = verify::LevelKind::exact;
    /// Called on all ranks; throws truestep::Error where ranks or settings do not fit. `threads` is the
    /// case's, for whoever can share work out.
    Start start{};
    /// From what any number of workers have saved in a folder. Without it restarts are left out.
    Restart restart{};
    /// What it cannot be asked, and why: {{"refusal", "settings are checked elsewhere"}}. Skipped, never
    /// failed.
    gate::LeftOut left_out{};
};

/// GASLoC as the gate knows a system, with these implementations, over threads or MPI.
[[nodiscard]] gate::System system_with(std::vector<Ranked> candidates);

/// The main function of a gate of your own (truestep/gate/gate_main.hpp) for implementations of GASLoC.
[[nodiscard]] int gate_main(int count, char** values, std::vector<Ranked> candidates);

} // namespace truestep::properties::gasloc
