#include "algorithms/codewords.hpp"
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(boundary::TakeColumns);
SCAPE_LAUNCH(boundary::Nearest);
SCAPE_LAUNCH(boundary::Learn);
SCAPE_LAUNCH(boundary::SubtractWords);
SCAPE_LAUNCH(boundary::PackIndices);
SCAPE_LAUNCH(boundary::UnpackIndices);
SCAPE_LAUNCH(boundary::SumWords);
SCAPE_LAUNCH(boundary::GatherWords);
SCAPE_LAUNCH(boundary::ScatterWords);
