// Makes the compiler check the templates of the reference with its own flags, for its scalars.
#include <truestep/reference/dense/reference.hpp>

namespace truestep::reference::dense {

template class Reference<float>;
template class Reference<double>;
template class Reference<Bf16>;

} // namespace truestep::reference::dense
