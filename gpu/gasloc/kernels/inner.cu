#include "algorithms/inner.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(SgdStep);
TRUESTEP_LAUNCH(AdamSStep);
TRUESTEP_LAUNCH(AdamSMomentumStep);
TRUESTEP_LAUNCH(AdamWStep);
