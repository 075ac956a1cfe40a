// Compiles the CUDA kernels that send Z as codeword indices and learn the codebooks.
#include "algorithms/codewords.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(mapl::boundary::TakeColumns);
TRUESTEP_LAUNCH(mapl::boundary::Nearest);
TRUESTEP_LAUNCH(mapl::boundary::Learn);
TRUESTEP_LAUNCH(mapl::boundary::SubtractWords);
TRUESTEP_LAUNCH(mapl::boundary::PackIndices);
TRUESTEP_LAUNCH(mapl::boundary::UnpackIndices);
TRUESTEP_LAUNCH(mapl::boundary::SumWords);
TRUESTEP_LAUNCH(mapl::boundary::GatherWords);
TRUESTEP_LAUNCH(mapl::boundary::ScatterWords);
