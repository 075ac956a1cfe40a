#include "algorithms/codewords.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(boundary::TakeColumns);
TRUESTEP_LAUNCH(boundary::Nearest);
TRUESTEP_LAUNCH(boundary::Learn);
TRUESTEP_LAUNCH(boundary::SubtractWords);
TRUESTEP_LAUNCH(boundary::PackIndices);
TRUESTEP_LAUNCH(boundary::UnpackIndices);
TRUESTEP_LAUNCH(boundary::SumWords);
TRUESTEP_LAUNCH(boundary::GatherWords);
TRUESTEP_LAUNCH(boundary::ScatterWords);
