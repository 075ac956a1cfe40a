// The passes for any machine, and those in double.
#include "network.hpp"

namespace truestep::training {

const Passes<float> plain_passes = passes<float>;
const Passes<double> double_passes = passes<double>;

} // namespace truestep::training
