#include "algorithms/rows.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(boundary::Check);
TRUESTEP_LAUNCH(boundary::PackValues);
TRUESTEP_LAUNCH(boundary::WidenValues);
TRUESTEP_LAUNCH(boundary::PackIds);
TRUESTEP_LAUNCH(boundary::UnpackIds);
TRUESTEP_LAUNCH(boundary::GatherRows);
TRUESTEP_LAUNCH(boundary::AddRows);
