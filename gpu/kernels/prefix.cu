#include <scape/gpu/algorithms/prefix.hpp>
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(Offsets);
