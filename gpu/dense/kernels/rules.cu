// Compiles the CUDA kernels of dense training's rules, and of its copies.
#include "algorithms/rules.hpp"
#include <truestep/gpu/launch.cuh>

TRUESTEP_LAUNCH(dense::SgdStep);
TRUESTEP_LAUNCH(dense::AdamStep);
TRUESTEP_LAUNCH(dense::MuonMomentum);
TRUESTEP_LAUNCH(dense::DivideBy);
TRUESTEP_LAUNCH(dense::KeepInBf16);
TRUESTEP_LAUNCH(dense::MuonUpdate);
TRUESTEP_LAUNCH(dense::Finite);
TRUESTEP_LAUNCH(dense::ToBf16);
TRUESTEP_LAUNCH(dense::FromBf16);
