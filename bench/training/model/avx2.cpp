// The passes for machines with AVX2 and fused multiply-add.
#if defined(__x86_64__)

// Eigen's functions are templates. They need another namespace in each of these files: else the
// linker could use this file's AVX2 code on a machine without it.
#define Eigen EigenAvx2
#include "network.hpp"

namespace truestep::training {

const Passes<float> avx2_passes = passes<float>;

} // namespace truestep::training

#endif
