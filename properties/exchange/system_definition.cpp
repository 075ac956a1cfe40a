// Registers exchanges between ranks with the gate.
#include "exchange.hpp"

namespace truestep::properties::exchange {

gate::System exchange_system();

gate::System exchange_system() {
    return gate::system_of_host<Implementation>(
        "exchange",
        "What ranks send each other arrives, over threads or MPI, and a rank that fails is named.", spec(),
        properties(), known_bugs());
}

} // namespace truestep::properties::exchange
