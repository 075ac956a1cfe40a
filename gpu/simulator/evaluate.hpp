#pragma once

// Instructions that compute a function of registers, lane by lane.

#include "instructions.hpp"
#include "warp.hpp"

namespace truestep::simulator {

/// Calls `work` for each lane of a set. A lane's work must not depend on the others.
template <class Work>
void for_each_alike(Lanes set, const Work& work) {
    if (set != ~Lanes{0})
        return for_each(set, work);
#pragma GCC ivdep // lanes are independent; a lane may overwrite only its own input
    for (int lane = 0; lane < lanes; ++lane)
        work(lane);
}

/// The lanes whose byte is 1.
inline Lanes set_of(const std::array<std::uint8_t, lanes>& bytes) {
    // Multiplying by this gathers the lowest bits of eight bytes at the top.
    constexpr std::uint64_t gathered = 0x0102'0408'1020'4080;
    Lanes set = 0;
    for (std::size_t eight = 0; eight < lanes; eight += 8) {
        std::uint64_t part = 0;
        std::memcpy(&part, bytes.data() + eight, sizeof part);
        set |= static_cast<Lanes>(part * gathered >> 56U) << eight;
    }
    return set;
}

template <class D, class A, class F>
Entry one(F) {
    return {[](Warp& warp, const Instruction& i) {
                std::uint64_t* const to = warp.row(i.to);
                const std::uint64_t* const a = warp.values(i.a);
                for_each_alike(warp.running,
                               [&](int lane) { to[lane] = bits_of<D>(F{}(value_of<A>(a[lane]))); });
            },
            Form::one};
}

template <class D, class A, class B, class F>
Entry two(F) {
    return {[](Warp& warp, const Instruction& i) {
                std::uint64_t* const to = warp.row(i.to);
                const std::uint64_t* const a = warp.values(i.a);
                const std::uint64_t* const b = warp.values(i.b);
                for_each_alike(warp.running, [&](int lane) {
                    to[lane] = bits_of<D>(F{}(value_of<A>(a[lane]), value_of<B>(b[lane])));
                });
            },
            Form::two};
}

template <class D, class A, class C, class F>
Entry three(F) {
    return {[](Warp& warp, const Instruction& i) {
                std::uint64_t* const to = warp.row(i.to);
                const std::uint64_t* const a = warp.values(i.a);
                const std::uint64_t* const b = warp.values(i.b);
                const std::uint64_t* const c = warp.values(i.c);
                for_each_alike(warp.running, [&](int lane) {
                    to[lane] =
                        bits_of<D>(F{}(value_of<A>(a[lane]), value_of<A>(b[lane]), value_of<C>(c[lane])));
                });
            },
            Form::three};
}

template <class A, class F>
Entry compare(F) {
    return {[](Warp& warp, const Instruction& i) {
                const std::uint64_t* const a = warp.values(i.a);
                const std::uint64_t* const b = warp.values(i.b);
                std::array<std::uint8_t, lanes> result{};
                for_each_alike(warp.running, [&](int lane) {
                    result[static_cast<std::size_t>(lane)] =
                        F{}(value_of<A>(a[lane]), value_of<A>(b[lane]));
                });
                warp.set_predicate(i.to, set_of(result));
            },
            Form::compare};
}

/// Combines predicates of all lanes at once.
template <class F>
Entry logic(F) {
    return {[](Warp& warp, const Instruction& i) {
                warp.set_predicate(i.to, F{}(warp.predicate(i.a), warp.predicate(i.b)));
            },
            Form::predicate};
}

template <class T>
Entry choose() {
    return {[](Warp& warp, const Instruction& i) {
                std::uint64_t* const to = warp.row(i.to);
                const std::uint64_t* const a = warp.values(i.a);
                const std::uint64_t* const b = warp.values(i.b);
                const Lanes yes = warp.predicate(i.c);
                for_each_alike(warp.running, [&](int lane) {
                    to[lane] = value_of<T>((yes >> lane & 1U) != 0 ? a[lane] : b[lane]);
                });
            },
            Form::select};
}

} // namespace truestep::simulator
