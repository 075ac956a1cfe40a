#pragma once

// Instructions that are a function of registers, by lanes.

#include "instructions.hpp"
#include "warp.hpp"

namespace scape::simulator {

template <class D, class A, class F>
Entry one(F) {
    return {[](Warp& warp, const Instruction& i) {
                std::uint64_t* const to = warp.row(i.to);
                const std::uint64_t* const a = warp.values(i.a);
                for_each(warp.running, [&](int lane) { to[lane] = bits_of<D>(F{}(value_of<A>(a[lane]))); });
            },
            Form::one};
}

template <class D, class A, class B, class F>
Entry two(F) {
    return {[](Warp& warp, const Instruction& i) {
                std::uint64_t* const to = warp.row(i.to);
                const std::uint64_t* const a = warp.values(i.a);
                const std::uint64_t* const b = warp.values(i.b);
                for_each(warp.running, [&](int lane) {
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
                for_each(warp.running, [&](int lane) {
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
                Lanes result = 0;
                for_each(warp.running, [&](int lane) {
                    result |= static_cast<Lanes>(F{}(value_of<A>(a[lane]), value_of<A>(b[lane]))) << lane;
                });
                warp.set_predicate(i.to, result);
            },
            Form::compare};
}

/// Of predicates: all lanes at once.
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
                for_each(warp.running, [&](int lane) {
                    to[lane] = value_of<T>((yes >> lane & 1U) != 0 ? a[lane] : b[lane]);
                });
            },
            Form::select};
}

} // namespace scape::simulator
