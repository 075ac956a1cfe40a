#include <scape/gpu/algorithms/prefix.hpp>
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(GroupSums);
SCAPE_LAUNCH(Offsets);
