// Registers dense training with the tool: docs/specification/dense.md.
#include <truestep/gate/system.hpp>

namespace truestep::properties::dense {

gate::System dense_system();

gate::System dense_system() {
    gate::System system;
    system.name = "dense";
    system.says = "SGD, Adam, AdamW and Muon under data parallelism.";
    return system;
}

} // namespace truestep::properties::dense
