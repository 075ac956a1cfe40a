#pragma once

#include <cstddef>

namespace scape::mapl {

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

/// All matrix products of MAPL's optimized side, in an order of the library's own.
void multiply(const Product& shape, const float* first, const float* second, float* to);

} // namespace scape::mapl
