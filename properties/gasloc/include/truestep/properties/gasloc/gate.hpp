// The interface for testing your own implementation of GASLoC with the gate.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
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
using distributed::gasloc::Halted; // these two are not those of <truestep/optimizer.hpp>
using problem::gasloc::Settings;

/// One worker of an implementation under test: the class to implement.
class RankUnderTest {
  public:
    virtual ~RankUnderTest() = default;
    /// An inner step (section 13.2). A gradient that is not finite makes the round a skipped one.
    virtual bool step(std::span<const float> gradient, double learning_rate) = 0;
    /// Drift, gossip and momentum (section 13.3 to 13.5). Returns whether the round was a skipped one.
    /// Throws distributed::Aborted if a neighbour did not come, and distributed::gasloc::Halted if theta is
    /// not finite.
    virtual bool round() = 0;
    /// The worker's own account of its last round, if it gives one.
    [[nodiscard]] virtual std::optional<Round> told() const { return std::nullopt; }
    /// The state after a round: theta, what the next momentum is measured from, the inner moments, and the
    /// counts.
    [[nodiscard]] virtual State state() const = 0;
    /// Takes a state, also within a round, which then begins anew. All workers call it. The
    /// property `restore` needs it (ImplementationSpec::restores).
    virtual void restore(State /*state*/) { throw std::logic_error("restore() is not implemented"); }
    /// Writes its part of a checkpoint. Called on all workers, each when it gets there.
    virtual void save(const std::filesystem::path& folder, int rank, int workers) const = 0;
};

/// An implementation of GASLoC whose workers are made one by one and talk through peers. The gate counts,
/// holds back and delays their messages.
struct ImplementationSpec {
    using Start = std::function<std::unique_ptr<RankUnderTest>(
        const Settings&, std::span<const float> parameters, distributed::Peers&, int threads)>;
    using Restart = std::function<std::unique_ptr<RankUnderTest>(
        const Settings&, const std::filesystem::path& folder, distributed::Peers&, int threads)>;

    std::string name;
    /// The level that it claims: equal bits, or within the bound on rounding.
    verify::LevelKind level = verify::LevelKind::exact;
    /// Called on all ranks; throws truestep::Error where ranks or settings do not fit. `threads` is the
    /// case's, for workers that can share work out.
    Start start{};
    /// Begins with what any number of workers have saved in a folder. Without it restarts are left out.
    Restart restart{};
    bool restores = false; ///< whether its workers have RankUnderTest::restore
    /// Properties that it does not support, and why: {{"refusal", "settings are checked elsewhere"}}. Such
    /// properties are skipped, never failed.
    gate::Unsupported unsupported{};
};

/// The gate's system GASLoC with these implementations, over threads or MPI.
[[nodiscard]] gate::System system_with(std::vector<ImplementationSpec> candidates);

/// The main function of your own gate (truestep/gate/gate_main.hpp) for implementations of GASLoC.
[[nodiscard]] int gate_main(int count, char** values, std::vector<ImplementationSpec> candidates);

} // namespace truestep::properties::gasloc
