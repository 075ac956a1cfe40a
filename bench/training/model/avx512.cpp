// The passes for machines with AVX-512.
#if defined(__x86_64__)

#define Eigen EigenAvx512 // as in avx2.cpp
#include "network.hpp"

namespace truestep::training {

const Passes<float> avx512_passes = passes<float>;

} // namespace truestep::training

#endif
