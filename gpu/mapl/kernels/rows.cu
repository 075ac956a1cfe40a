// Compiles the CUDA kernels that check and pack rows, pack ids, and gather or add rows by id.
#include "algorithms/rows.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(mapl::boundary::Check);
TRUESTEP_LAUNCH(mapl::boundary::PackValues);
TRUESTEP_LAUNCH(mapl::boundary::WidenValues);
TRUESTEP_LAUNCH(mapl::boundary::PackIds);
TRUESTEP_LAUNCH(mapl::boundary::UnpackIds);
TRUESTEP_LAUNCH(mapl::boundary::GatherRows);
TRUESTEP_LAUNCH(mapl::boundary::AddRows);
