#include <truestep/gpu/algorithms/prefix.hpp>
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(GroupSums);
TRUESTEP_LAUNCH(Offsets);
