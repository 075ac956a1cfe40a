// Products by a library with CBLAS: OpenBLAS, BLIS.
#include <truestep/distributed/mapl/products.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string>

#include <cblas.h>

#include <truestep/problem/error.hpp>

namespace truestep::distributed::mapl {

namespace {

/// CBLAS counts in int.
int count(std::size_t size) {
    if (size > static_cast<std::size_t>(std::numeric_limits<int>::max()))
        throw Error("a matrix has " + std::to_string(size) + " rows or columns; " +
                    std::string(products_by()) + " takes at most 2^31 - 1, so divide the micro-batch");
    return static_cast<int>(size);
}

/// The distance between rows of a matrix of `rows` x `columns`, or of its transpose.
int stride(bool transposed, std::size_t rows, std::size_t columns) {
    return std::max(1, count(transposed ? rows : columns));
}

} // namespace

void multiply(const Product& shape, const float* first, const float* second, float* to) {
    if (shape.rows == 0 || shape.columns == 0)
        return;
    cblas_sgemm(CblasRowMajor, shape.first_transposed ? CblasTrans : CblasNoTrans,
                shape.second_transposed ? CblasTrans : CblasNoTrans, count(shape.rows),
                count(shape.columns), count(shape.inner), shape.factor, first,
                stride(shape.first_transposed, shape.rows, shape.inner), second,
                stride(shape.second_transposed, shape.inner, shape.columns), shape.keep ? 1.0F : 0.0F, to,
                count(shape.columns));
}

std::string_view products_by() {
    return TRUESTEP_BLAS_NAME;
}

#ifdef TRUESTEP_BLAS_IS_OPENBLAS

void one_thread_unless_asked() {
    static std::once_flag once;
    std::call_once(once, [] {
        for (const char* name : {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"})
            if (std::getenv(name) != nullptr)
                return;
        if (openblas_get_num_threads() == openblas_get_num_procs())
            openblas_set_num_threads(1);
    });
}

#else

// BLIS uses one unless more are requested.
void one_thread_unless_asked() {}

#endif

} // namespace truestep::distributed::mapl
