// Compiles the CUDA kernel that adds one vector to another, which reductions between ranks use.
#include <truestep/gpu/algorithms/add.hpp>
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(AddTo);
