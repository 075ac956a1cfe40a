#include <scape/gpu/algorithms/add.hpp>
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(AddTo);
