// Compiles the CUDA kernels of GASLoC's inner steps: SGD, AdamS and AdamW.
#include "algorithms/inner.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(gasloc::SgdStep);
TRUESTEP_LAUNCH(gasloc::AdamSStep);
TRUESTEP_LAUNCH(gasloc::AdamSMomentumStep);
TRUESTEP_LAUNCH(gasloc::AdamWStep);
