#include <truestep/gpu/algorithms/add.hpp>
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(AddTo);
