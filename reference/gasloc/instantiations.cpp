// The reference is templates; here the compiler reads all of them, with the reference's own flags, for both
// of its scalars.
#include <truestep/gasloc/reference.hpp>

namespace truestep::gasloc {

template class Reference<float>;
template class Reference<double>;

} // namespace truestep::gasloc
