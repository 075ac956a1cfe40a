// Makes the compiler check the templates of the reference with its own flags, for both of its
// scalars.
#include <truestep/reference/mapl/boundary.hpp>
#include <truestep/reference/mapl/spel.hpp>
#include <truestep/reference/mapl/vector_quantization.hpp>

namespace truestep::reference::mapl {

template struct Boundary<float>;
template struct Boundary<double>;
template struct Quantizer<float>;
template struct Quantizer<double>;
template SpelStep<float> spel(const Settings&, const Matrix<float>&, const Matrix<float>&,
                              const Matrix<float>&, double);
template SpelStep<double> spel(const Settings&, const Matrix<double>&, const Matrix<double>&,
                               const Matrix<double>&, double);

} // namespace truestep::reference::mapl
