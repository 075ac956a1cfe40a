#include "algorithms/select.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(Prepare);
TRUESTEP_LAUNCH(Bracket);
TRUESTEP_LAUNCH(Judge);
TRUESTEP_LAUNCH(Digit);
TRUESTEP_LAUNCH(Pick);
TRUESTEP_LAUNCH(TieCount);
TRUESTEP_LAUNCH(Take);
