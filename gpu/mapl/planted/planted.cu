#include <scape/gpu/launch.cuh>
#include "planted/algorithms.hpp"

SCAPE_LAUNCH(boundary::planted::UnbarredSums);
SCAPE_LAUNCH(boundary::planted::AddRowsAtOnce);
