#pragma once

namespace truestep::problem {

/// A size at which optimized code begins another block, tile, chunk or way; any size gives the same
/// bits. A build with TRUESTEP_TINY makes it so small that the gate's cases exceed it.
template <class T>
constexpr T tunable([[maybe_unused]] T usual, [[maybe_unused]] T tiny) {
#ifdef TRUESTEP_TINY
    return tiny;
#else
    return usual;
#endif
}

} // namespace truestep::problem
