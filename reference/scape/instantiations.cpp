// The reference is templates; here the compiler reads all of them, with the reference's own flags, for all
// of its scalars.
#include <scape/reference/adams.hpp>
#include <scape/reference/adamw.hpp>
#include <scape/reference/bf16.hpp>
#include <scape/reference/scape.hpp>

namespace scape::reference {

template class AdamS<float>;
template class AdamS<double>;
template class AdamS<Bf16>;
template class AdamW<float>;
template class AdamW<double>;
template class Scape<float>;
template class Scape<double>;
template class Scape<Bf16>;

} // namespace scape::reference
