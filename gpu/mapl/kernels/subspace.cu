#include "algorithms/subspace.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(boundary::Blend);
TRUESTEP_LAUNCH(boundary::Polynomial);
TRUESTEP_LAUNCH(boundary::Symmetrize);
TRUESTEP_LAUNCH(boundary::SquareSums);
TRUESTEP_LAUNCH(boundary::ScaleBy);
