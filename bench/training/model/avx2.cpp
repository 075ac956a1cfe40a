// The passes for machines with AVX2 and fused multiply-add.
#if defined(__x86_64__)

// Eigen's functions are templates in a namespace: those of this file must not be those of another, or a
// machine without AVX2 would come upon it.
#define Eigen EigenAvx2
#include "network.hpp"

namespace truestep::training {

const Passes<float> avx2_passes = passes<float>;

} // namespace truestep::training

#endif
