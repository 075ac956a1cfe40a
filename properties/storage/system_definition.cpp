// Registers files and folders with the gate.
#include "storage.hpp"

namespace truestep::properties::storage {

gate::System storage_system();

gate::System storage_system() {
    return gate::system_of_host<Implementation>(
        "storage",
        "Saved files are read back, damaged ones are refused, links stay, crashes leave whole files.",
        spec(), properties(), known_bugs());
}

} // namespace truestep::properties::storage
