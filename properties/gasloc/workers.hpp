#pragma once

#include <functional>
#include <memory>

#include <truestep/gasloc/worker.hpp>

#include "candidate.hpp"

namespace truestep::gasloc {

/// A worker, and what it lives on, which goes after it.
struct Housed {
    std::shared_ptr<void> house;
    std::unique_ptr<Worker> worker;
};
/// gasloc::Worker over any backend, from what it begins with and from its checkpoints.
[[nodiscard]] Subjects
subjects_of(const std::function<Housed(const Settings&, State, distributed::Peers&, int threads)>& make);
/// distributed/gasloc.
[[nodiscard]] Subjects workers();

} // namespace truestep::gasloc
