// The interface to the library of matrix products.
#pragma once

#include <cstddef>
#include <string_view>

namespace truestep::distributed::mapl {

/// A product of matrices, row by row without gaps. `first` is `rows` x `inner` or its transpose,
/// `second` `inner` x `columns` or its transpose; to = keep * to + factor * first second, where
/// keep is 0 (`to` is not read) or 1.
struct Product {
    std::size_t rows;
    std::size_t columns;
    std::size_t inner;
    bool first_transposed = false;
    bool second_transposed = false;
    float factor = 1.0F;
    bool keep = false;
};

/// All matrix products of MAPL's optimized side, by the library that the build has chosen
/// (TRUESTEP_BLAS), in its order: equal shapes give equal bits, at any address.
void multiply(const Product& shape, const float* first, const float* second, float* to);

/// The name of that library.
[[nodiscard]] std::string_view products_by();

/// Limits the library to one thread, because a rank has one core. The first call does so for the
/// whole process, unless the environment or an earlier call of the library has set the number of
/// threads.
void one_thread_unless_asked();

} // namespace truestep::distributed::mapl
