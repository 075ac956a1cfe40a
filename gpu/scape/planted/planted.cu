#include <scape/gpu/launch.cuh>
#include "planted/algorithms.hpp"

SCAPE_LAUNCH(planted::FusedLocalPass<false>);
SCAPE_LAUNCH(planted::FusedLocalPass<true>);
SCAPE_LAUNCH(planted::FlushToZero);
SCAPE_LAUNCH(planted::Unbarred<scape::gpu::SquareSums>);
