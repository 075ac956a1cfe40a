// Compiles the CUDA kernels that end a round of GASLoC: drift, and gossip with momentum.
#include "algorithms/meeting.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(gasloc::Drift);
TRUESTEP_LAUNCH(gasloc::Meet);
