// Compiles the CUDA kernels after SCAPE's exchange: the norm, clipping and the update.
#include "algorithms/update.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(scape::SquareSums);
TRUESTEP_LAUNCH(scape::TreeSums);
TRUESTEP_LAUNCH(scape::Clip);
TRUESTEP_LAUNCH(scape::Update);
