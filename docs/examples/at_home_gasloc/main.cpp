// Puts a GASLoC of your own to the gate. docs/gasloc.md walks through it; worker.hpp is the place where
// yours goes.
//
//     at_home_gasloc                                  matrix and properties; exit status 0 if all hold
//     at_home_gasloc --implementation yours-broken    the same with one mistake: exit status 1
//     at_home_gasloc --converge                       train a small model with it, beside the reference
//     at_home_gasloc --help                           the command line of `truestep check`
//     mpirun -n 3 at_home_gasloc --communicator mpi --brief

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <truestep/training/gate_main.hpp>

#include "worker.hpp"

namespace {

truestep::properties::gasloc::ImplementationSpec candidate(const std::string& name, bool breaks) {
    return {.name = name,
            .level = truestep::verify::LevelKind::rel, // exact: every bit is as in the reference
            .start = [breaks](const truestep::properties::gasloc::Settings& settings,
                              std::span<const float> parameters, truestep::distributed::Peers& peers,
                              int) -> std::unique_ptr<truestep::properties::gasloc::RankUnderTest> {
                return std::make_unique<at_home::Worker>(settings, parameters, peers, breaks);
            },
            // Why a property does not apply: SKIPPED with the reason.
            .unsupported = {{"refusal", "ranks are not asked whether they agree"}}};
}

} // namespace

int main(int count, char** values) {
    std::vector<truestep::properties::gasloc::ImplementationSpec> candidates{candidate("yours", false)};
    // The broken one is tested only if it is named.
    if (std::find(values, values + count, std::string("yours-broken")) != values + count)
        candidates.push_back(candidate("yours-broken", true));
    return truestep::training::gate_main(
        count, values, {truestep::properties::gasloc::system_with(std::move(candidates))});
}
