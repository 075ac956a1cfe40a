// The reference is templates; here the compiler reads all of them, with the reference's own flags, for both
// of its scalars.
#include <truestep/reference/gasloc/reference.hpp>

namespace truestep::reference::gasloc {

template class Reference<float>;
template class Reference<double>;

} // namespace truestep::reference::gasloc
