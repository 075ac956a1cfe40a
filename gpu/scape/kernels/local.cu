// Compiles the CUDA kernels before SCAPE's exchange: gradient check, local pass, extraction.
#include "algorithms/local.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(scape::FirstRefused);
TRUESTEP_LAUNCH(scape::LocalPass);
TRUESTEP_LAUNCH(scape::WatchingPass);
TRUESTEP_LAUNCH(scape::Extract);
