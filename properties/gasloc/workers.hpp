// Workers of distributed/gasloc as implementations under test.
#pragma once

#include <functional>
#include <memory>

#include <truestep/distributed/gasloc/worker.hpp>

#include "implementation.hpp"

namespace truestep::properties::gasloc {

/// A worker with the resources that it uses, which are destroyed after it.
struct OwnedWorker {
    std::shared_ptr<void> house;
    std::unique_ptr<Worker> worker;
};
/// Workers over any backend, from a state and from their checkpoints.
[[nodiscard]] RankFactory subjects_of(
    const std::function<OwnedWorker(const Settings&, State, distributed::Peers&, int threads)>& make);
/// The workers of distributed/gasloc on the host.
[[nodiscard]] RankFactory workers();

} // namespace truestep::properties::gasloc
