#pragma once

#include <cstddef>
#include <string_view>

namespace truestep::distributed::mapl {

/// Row after row, without gaps. `first` is `rows` x `inner` or its transpose, `second` `inner` x `columns`
/// or its transpose; to = keep * to + factor * first second, keep is 0 (nothing of `to` is read) or 1.
struct Product {
    std::size_t rows;
    std::size_t columns;
    std::size_t inner;
    bool first_transposed = false;
    bool second_transposed = false;
    float factor = 1.0F;
    bool keep = false;
};

/// All matrix products of MAPL's optimized side, by the library that the build has chosen (TRUESTEP_BLAS),
/// in an order of its own: the same bits again from the same shape, wherever the values stand.
void multiply(const Product& shape, const float* first, const float* second, float* to);

/// What that library is called.
[[nodiscard]] std::string_view products_by();

/// A rank has one core. The first call tells the library so for the whole process, unless the environment
/// or an earlier call of the library's own has said how many threads it may use.
void one_thread_unless_asked();

} // namespace truestep::distributed::mapl
