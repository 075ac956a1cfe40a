#include "algorithms/exchanged.hpp"
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(Fold);
SCAPE_LAUNCH(FoldTravelled);
SCAPE_LAUNCH(RoundPayload);
SCAPE_LAUNCH(WriteRounded);
SCAPE_LAUNCH(TakeMeans);
SCAPE_LAUNCH(GreatestScore);
