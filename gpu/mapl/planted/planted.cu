#include <truestep/gpu/launch.cuh>
#include "planted/algorithms.hpp"

TRUESTEP_LAUNCH(boundary::planted::UnbarredSums);
TRUESTEP_LAUNCH(boundary::planted::AddRowsAtOnce);
