// Makes the compiler check the templates of the reference with its own flags, for all of its
// scalars.
#include <truestep/reference/bf16.hpp>
#include <truestep/reference/scape/adams.hpp>
#include <truestep/reference/scape/adamw.hpp>
#include <truestep/reference/scape/scape.hpp>

namespace truestep::reference::scape {

template class AdamS<float>;
template class AdamS<double>;
template class AdamS<Bf16>;
template class AdamW<float>;
template class AdamW<double>;
template class Scape<float>;
template class Scape<double>;
template class Scape<Bf16>;

} // namespace truestep::reference::scape
