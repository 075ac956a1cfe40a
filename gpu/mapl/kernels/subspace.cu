// Compiles the CUDA kernels of a SPEL step that are not matrix products.
#include "algorithms/subspace.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(mapl::boundary::Blend);
TRUESTEP_LAUNCH(mapl::boundary::Polynomial);
TRUESTEP_LAUNCH(mapl::boundary::Symmetrize);
TRUESTEP_LAUNCH(mapl::boundary::SquareSums);
TRUESTEP_LAUNCH(mapl::boundary::ScaleBy);
