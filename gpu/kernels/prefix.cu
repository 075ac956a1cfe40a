// Compiles the CUDA kernels that make prefix sums of integers over many blocks.
#include <truestep/gpu/algorithms/prefix.hpp>
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(GroupSums);
TRUESTEP_LAUNCH(Offsets);
