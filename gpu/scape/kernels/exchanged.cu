#include "algorithms/exchanged.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(Fold);
TRUESTEP_LAUNCH(FoldTravelled);
TRUESTEP_LAUNCH(RoundPayload);
TRUESTEP_LAUNCH(WriteRounded);
TRUESTEP_LAUNCH(TakeMeans);
TRUESTEP_LAUNCH(GreatestScore);
