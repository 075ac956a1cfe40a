#include "algorithms/select.hpp"
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(Prepare);
SCAPE_LAUNCH(Bracket);
SCAPE_LAUNCH(Judge);
SCAPE_LAUNCH(Digit);
SCAPE_LAUNCH(Pick);
SCAPE_LAUNCH(TieCount);
SCAPE_LAUNCH(Take);
