#pragma once

namespace truestep::problem {

/// A size at which optimized code begins another block, tile, chunk or way: any gives the same bits. In a
/// build with TRUESTEP_TINY it is so small that the gate's cases lie beyond it.
template <class T>
constexpr T tunable([[maybe_unused]] T usual, [[maybe_unused]] T tiny) {
#ifdef TRUESTEP_TINY
    return tiny;
#else
    return usual;
#endif
}

} // namespace truestep::problem
