// Puts an optimizer of your own to the gate: all properties, drawn cases, a shrunk counterexample.
// docs/using-the-gate.md walks through it. optimizer.hpp is the place where yours goes.
//
//     at_home                                  matrix and properties; exit status 0 if all hold
//     at_home --implementation yours-broken    the same with one mistake: exit status 1
//     at_home --converge                       does a small model learn as much by it?
//     at_home --help                           `truestep check`'s options: --case, --report, MPI ...

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <truestep/properties/scape/system.hpp>
#include <truestep/training/gate_main.hpp>

#include "optimizer.hpp"

namespace {

truestep::properties::scape::ImplementationSpec candidate(const std::string& name, bool breaks) {
    return {.name = name,
            .level =
                truestep::verify::LevelKind::exact, // what it claims; rel if it does not add in rank order
            .make = [breaks](const truestep::properties::scape::Setup& setup,
                             truestep::distributed::Communicator& communicator)
                -> std::unique_ptr<truestep::properties::scape::RankUnderTest> {
                return std::make_unique<at_home::Wrapped>(setup, communicator, breaks);
            },
            // Properties that do not apply yet, and why: {{"restart", "no checkpoints yet"}}.
            // SKIPPED with the reason.
            .unsupported = {}};
}

} // namespace

int main(int count, char** values) {
    std::vector<truestep::properties::scape::ImplementationSpec> candidates{candidate("yours", false)};
    // The broken one is tested only if it is named.
    if (std::find(values, values + count, std::string("yours-broken")) != values + count)
        candidates.push_back(candidate("yours-broken", true));
    return truestep::training::gate_main(count, values,
                                         {truestep::properties::scape::system_with(std::move(candidates))});
}
