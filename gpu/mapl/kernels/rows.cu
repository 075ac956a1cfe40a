#include "algorithms/rows.hpp"
#include <scape/gpu/launch.cuh>

SCAPE_LAUNCH(boundary::Check);
SCAPE_LAUNCH(boundary::PackValues);
SCAPE_LAUNCH(boundary::WidenValues);
SCAPE_LAUNCH(boundary::PackIds);
SCAPE_LAUNCH(boundary::UnpackIds);
SCAPE_LAUNCH(boundary::GatherRows);
SCAPE_LAUNCH(boundary::AddRows);
