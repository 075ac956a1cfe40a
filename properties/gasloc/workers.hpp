#pragma once

#include <functional>
#include <memory>

#include <truestep/distributed/gasloc/worker.hpp>

#include "candidate.hpp"

namespace truestep::properties::gasloc {

/// A worker, and what it lives on, which goes after it.
struct Housed {
    std::shared_ptr<void> house;
    std::unique_ptr<Worker> worker;
};
/// distributed::gasloc::Worker over any backend, from what it begins with and from its checkpoints.
[[nodiscard]] Subjects
subjects_of(const std::function<Housed(const Settings&, State, distributed::Peers&, int threads)>& make);
/// distributed/gasloc.
[[nodiscard]] Subjects workers();

} // namespace truestep::properties::gasloc
