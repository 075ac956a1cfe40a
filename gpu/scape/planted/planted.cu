#include "planted/algorithms.hpp"
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(planted::FusedLocalPass<false>);
SCAPE_LAUNCH(planted::FusedLocalPass<true>);
SCAPE_LAUNCH(planted::FlushToZero);
SCAPE_LAUNCH(planted::PayloadCutOff);
SCAPE_LAUNCH(planted::PayloadWithoutRest);
SCAPE_LAUNCH(planted::Unbarred<scape::gpu::SquareSums>);
