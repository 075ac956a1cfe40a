// Compiles the CUDA kernels that average received values, and round payloads with their scale.
#include "algorithms/exchanged_values.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(scape::Fold);
TRUESTEP_LAUNCH(scape::FoldTravelled);
TRUESTEP_LAUNCH(scape::RoundPayload);
TRUESTEP_LAUNCH(scape::WriteRounded);
TRUESTEP_LAUNCH(scape::TakeMeans);
TRUESTEP_LAUNCH(scape::GreatestScore);
