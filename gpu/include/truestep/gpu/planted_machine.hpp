#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <truestep/gpu/algorithms/quad.hpp>

// A machine, of a device or in the host's form, with a known bug of device code. It is for the
// gate's own test; users never link it.

namespace truestep::gpu {

/// Wrong runs in place of Right, if the known bug `made` is on. Both take the same arguments.
template <auto made, class Right, class Wrong>
struct InPlaceOf {};

/// Behaves as Base except for one known bug. The bug is one of the system's replacements, or one
/// that any system can have, if its enumeration names it: last_quad_left_out,
/// verdict_not_waited_for, sent_before_written.
template <class Base, class KnownBug, class... Replacements>
class PlantedMachine : public Base {
  public:
    PlantedMachine(Base base, KnownBug known_bug) : Base(std::move(base)), known_bug_(known_bug) {}

    [[nodiscard]] bool has(KnownBug known_bug) const { return known_bug_ == known_bug; }

    template <class Algorithm>
    void run(Index blocks, typename Algorithm::Arguments a) {
        if constexpr (
            requires { KnownBug::last_quad_left_out; } && requires { a.size; })
            if (has(KnownBug::last_quad_left_out))
                a.size -= a.size % quad_size; // whole loads of 16 bytes, and nothing after them
        if (!(replaces<Algorithm>(Replacements{}, blocks, a) || ...))
            Base::template run<Algorithm>(blocks, a);
    }

    template <class T>
    void download(T* to, const T* from, Index size) {
        if constexpr (std::is_same_v<T, std::uint32_t> && requires { KnownBug::verdict_not_waited_for; })
            if (size == 1 && has(KnownBug::verdict_not_waited_for))
                return; // it would come into the caller's variable, which is 0 before
        Base::download(to, from, size);
    }

    void finish() {
        if constexpr (requires { KnownBug::sent_before_written; })
            if (has(KnownBug::sent_before_written))
                return;
        Base::finish();
    }

  private:
    template <class Algorithm, auto made, class Right, class Wrong>
    bool replaces(InPlaceOf<made, Right, Wrong> /*of*/, Index blocks,
                  const typename Algorithm::Arguments& a) {
        if constexpr (std::is_same_v<Algorithm, Right>)
            if (has(made)) {
                Base::template run<Wrong>(blocks, a);
                return true;
            }
        return false;
    }

    KnownBug known_bug_;
};

} // namespace truestep::gpu
