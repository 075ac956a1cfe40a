// Puts an optimizer of your own to the gate: all properties, drawn cases, a shrunk counterexample.
// docs/using-the-gate.md walks through it. optimizer.hpp is the place where yours goes.
//
//     at_home                        matrix and properties; exit status 0 if all hold
//     at_home --break                the same with one mistake: exit status 1
//     at_home --help                 the command line of `scape check`: seeds, --case, --report,
//     MPI ...

#include <algorithm>
#include <memory>
#include <string>

#include <scape/properties/system.hpp>

#include "optimizer.hpp"

int main(int count, char** values) {
    // --break is this example's own; the rest of the command line is the gate's.
    const bool breaks = count > 1 && std::string(values[1]) == "--break";
    if (breaks)
        std::rotate(values + 1, values + 2, values + count);
    return scape::properties::gate_main(
        count - (breaks ? 1 : 0), values,
        {{.name = breaks ? "yours-broken" : "yours",
          .level = scape::verify::LevelKind::exact, // what it claims; rel if it does not add in rank order
          .make = [breaks](const scape::properties::Setup& setup,
                           scape::distributed::Communicator& communicator)
              -> std::unique_ptr<scape::properties::Candidate> {
              return std::make_unique<at_home::Wrapped>(setup, communicator, breaks);
          },
          // What yours cannot be asked yet, and why: {{"restart", "no checkpoints yet"}}. SKIPPED with the
          // reason.
          .left_out = {}}});
}
