// Makes the compiler check the templates of the reference with its own flags, for both of its
// scalars.
#include <truestep/reference/gasloc/reference.hpp>

namespace truestep::reference::gasloc {

template class Reference<float>;
template class Reference<double>;

} // namespace truestep::reference::gasloc
