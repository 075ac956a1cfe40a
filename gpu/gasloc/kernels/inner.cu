#include "algorithms/inner.hpp"
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(SgdStep);
SCAPE_LAUNCH(AdamSStep);
SCAPE_LAUNCH(AdamSMomentumStep);
SCAPE_LAUNCH(AdamWStep);
