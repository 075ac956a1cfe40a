#include "algorithms/subspace.hpp"
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(boundary::Blend);
SCAPE_LAUNCH(boundary::Polynomial);
SCAPE_LAUNCH(boundary::Symmetrize);
SCAPE_LAUNCH(boundary::SquareSums);
SCAPE_LAUNCH(boundary::ScaleBy);
