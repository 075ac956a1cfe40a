// Products without a BLAS: by Eigen, on one thread (EIGEN_DONT_PARALLELIZE), with the compiler's
// target instructions.
#include <truestep/distributed/mapl/products.hpp>

#include <Eigen/Core>

namespace truestep::distributed::mapl {

namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const RowMajor> mapped(const float* values, std::size_t rows, std::size_t columns) {
    return {values, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns)};
}

template <class First, class Second>
void into(const Product& shape, const First& first, const Second& second, float* to) {
    Eigen::Map<RowMajor> result(to, static_cast<Eigen::Index>(shape.rows),
                                static_cast<Eigen::Index>(shape.columns));
    if (!shape.keep)
        result.setZero();
    result.noalias() += shape.factor * (first * second);
}

template <class First>
void by_second(const Product& shape, const First& first, const float* second, float* to) {
    if (shape.second_transposed)
        into(shape, first, mapped(second, shape.columns, shape.inner).transpose(), to);
    else
        into(shape, first, mapped(second, shape.inner, shape.columns), to);
}

} // namespace

void multiply(const Product& shape, const float* first, const float* second, float* to) {
    if (shape.first_transposed)
        by_second(shape, mapped(first, shape.inner, shape.rows).transpose(), second, to);
    else
        by_second(shape, mapped(first, shape.rows, shape.inner), second, to);
}

std::string_view products_by() {
    return "Eigen";
}

void one_thread_unless_asked() {}

} // namespace truestep::distributed::mapl
