#include "planted/algorithms.hpp"
#include <truestep/gpu/algorithms/unbarred.hpp>
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(planted::FusedLocalPass<false>);
TRUESTEP_LAUNCH(planted::FusedLocalPass<true>);
TRUESTEP_LAUNCH(planted::FlushToZero);
TRUESTEP_LAUNCH(planted::PayloadCutOff);
TRUESTEP_LAUNCH(planted::PayloadWithoutRest);
TRUESTEP_LAUNCH(planted::Unbarred<truestep::gpu::SquareSums>);
