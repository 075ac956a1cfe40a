// Instructions on integers, bits and predicates.
#include <bit>
#include <type_traits>

#include "evaluate.hpp"

namespace truestep::simulator {

namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

/// PTX's type names of a width.
struct Names {
    std::string bits;
    std::string is_signed;
    std::string is_unsigned;
};

template <class U>
void add_arithmetic(Table& t, const Names& names) {
    using S = std::make_signed_t<U>;
    constexpr unsigned width = sizeof(U) * 8;
    for (const std::string& n : {names.is_signed, names.is_unsigned}) {
        t["add." + n] = two<U, U, U>([](U x, U y) { return static_cast<U>(x + y); });
        t["sub." + n] = two<U, U, U>([](U x, U y) { return static_cast<U>(x - y); });
        t["mul.lo." + n] = two<U, U, U>([](U x, U y) { return static_cast<U>(u64{x} * y); });
        t["mad.lo." + n] = three<U, U, U>([](U x, U y, U z) { return static_cast<U>(u64{x} * y + z); });
    }
    __extension__ using Wide = __int128;
    t["mul.hi." + names.is_signed] =
        two<S, S, S>([](S x, S y) { return static_cast<S>((Wide{x} * y) >> width); });
    t["mul.hi." + names.is_unsigned] = two<U, U, U>(
        [](U x, U y) { return static_cast<U>((static_cast<Wide>(x) * static_cast<Wide>(y)) >> width); });
    // PTX leaves division by 0 undefined; the least number divided by -1 is itself.
    t["div." + names.is_signed] = two<S, S, S>([](S x, S y) {
        if (y == 0)
            return S{-1};
        return y == -1 ? static_cast<S>(U{0} - static_cast<U>(x)) : static_cast<S>(x / y);
    });
    t["div." + names.is_unsigned] =
        two<U, U, U>([](U x, U y) { return y == 0 ? static_cast<U>(~U{0}) : static_cast<U>(x / y); });
    t["neg." + names.is_signed] = one<U, U>([](U x) { return static_cast<U>(U{0} - x); });
    t["min." + names.is_signed] = two<S, S, S>([](S x, S y) { return x < y ? x : y; });
    t["max." + names.is_signed] = two<S, S, S>([](S x, S y) { return x < y ? y : x; });
    t["min." + names.is_unsigned] = two<U, U, U>([](U x, U y) { return x < y ? x : y; });
    t["max." + names.is_unsigned] = two<U, U, U>([](U x, U y) { return x < y ? y : x; });
}

template <class U>
void add_bits(Table& t, const Names& names) {
    using S = std::make_signed_t<U>;
    constexpr u32 width = sizeof(U) * 8;
    const std::string& b = names.bits;
    t["and." + b] = two<U, U, U>([](U x, U y) { return static_cast<U>(x & y); });
    t["or." + b] = two<U, U, U>([](U x, U y) { return static_cast<U>(x | y); });
    t["xor." + b] = two<U, U, U>([](U x, U y) { return static_cast<U>(x ^ y); });
    t["not." + b] = one<U, U>([](U x) { return static_cast<U>(~x); });
    // Shifts by the width or more give 0; for a signed number, copies of its sign.
    t["shl." + b] =
        two<U, U, u32>([](U x, u32 by) { return by >= width ? U{0} : static_cast<U>(u64{x} << by); });
    for (const std::string& n : {names.is_unsigned, b})
        t["shr." + n] =
            two<U, U, u32>([](U x, u32 by) { return by >= width ? U{0} : static_cast<U>(x >> by); });
    t["shr." + names.is_signed] = two<S, S, u32>(
        [](S x, u32 by) { return static_cast<S>(s64{x} >> (by >= width ? width - 1 : by)); });
    if constexpr (width >= 32) {
        t["popc." + b] = one<u32, U>([](U x) { return static_cast<u32>(std::popcount(x)); });
        t["clz." + b] = one<u32, U>([](U x) { return static_cast<u32>(std::countl_zero(x)); });
        t["brev." + b] = one<U, U>([](U x) {
            U reversed = 0;
            for (u32 bit = 0; bit < width; ++bit)
                reversed = static_cast<U>(reversed << 1U | (x >> bit & 1U));
            return reversed;
        });
    }
    for (const std::string& n : {b, names.is_unsigned, names.is_signed}) {
        t["mov." + n] = one<U, U>([](U x) { return x; });
        t["selp." + n] = choose<U>();
    }
}

template <class U>
void add_comparisons(Table& t, const Names& names) {
    using S = std::make_signed_t<U>;
    const auto both = [&](const std::string& op, auto relation) {
        t["setp." + op + "." + names.is_signed] = compare<S>(relation);
        t["setp." + op + "." + names.is_unsigned] = compare<U>(relation);
    };
    both("eq", [](auto x, auto y) { return x == y; });
    both("ne", [](auto x, auto y) { return x != y; });
    both("lt", [](auto x, auto y) { return x < y; });
    both("le", [](auto x, auto y) { return x <= y; });
    both("gt", [](auto x, auto y) { return x > y; });
    both("ge", [](auto x, auto y) { return x >= y; });
    for (const std::string op : {"setp.eq.", "setp.ne."})
        t[op + names.bits] = t[op + names.is_unsigned];
}

template <class U>
void add_width(Table& t, const Names& names) {
    add_arithmetic<U>(t, names);
    add_bits<U>(t, names);
    add_comparisons<U>(t, names);
}

/// bfi: the lowest `length` bits of a, put into b from bit `position` on.
template <class U>
Entry insert_bits() {
    return {[](Warp& warp, const Instruction& i) {
                constexpr u32 width = sizeof(U) * 8;
                std::uint64_t* const to = warp.row(i.to);
                for_each(warp.running, [&](int lane) {
                    const auto from = value_of<U>(warp.values(i.a)[lane]);
                    auto result = value_of<U>(warp.values(i.b)[lane]);
                    const u32 position = value_of<u32>(warp.values(i.c)[lane]) & 0xffU;
                    const u32 length = value_of<u32>(warp.values(i.d)[lane]) & 0xffU;
                    for (u32 bit = 0; bit < length && position + bit < width; ++bit) {
                        const U place = static_cast<U>(U{1} << (position + bit));
                        result = static_cast<U>((from >> bit & 1U) != 0 ? result | place : result & ~place);
                    }
                    to[lane] = bits_of<U>(result);
                });
            },
            Form::four};
}

} // namespace

void add_integers(Table& t) {
    add_width<u16>(t, {"b16", "s16", "u16"});
    add_width<u32>(t, {"b32", "s32", "u32"});
    add_width<u64>(t, {"b64", "s64", "u64"});
    t["mul.wide.u16"] = two<u32, u16, u16>([](u16 x, u16 y) { return u32{x} * y; });
    t["mul.wide.s16"] = two<s32, s16, s16>([](s16 x, s16 y) { return s32{x} * y; });
    t["mul.wide.u32"] = two<u64, u32, u32>([](u32 x, u32 y) { return u64{x} * y; });
    t["mul.wide.s32"] = two<s64, s32, s32>([](s32 x, s32 y) { return s64{x} * y; });
    t["mad.wide.u32"] = three<u64, u32, u64>([](u32 x, u32 y, u64 z) { return u64{x} * y + z; });
    t["mad.wide.s32"] =
        three<u64, s32, u64>([](s32 x, s32 y, u64 z) { return static_cast<u64>(s64{x} * y) + z; });
    // Four bits choose each byte of the result: the number of a byte of both, and whether its sign
    // fills it.
    t["prmt.b32"] = three<u32, u32, u32>([](u32 x, u32 y, u32 which) {
        const u64 bytes = u64{y} << 32U | x;
        u32 result = 0;
        for (u32 place = 0; place < 4; ++place) {
            const u32 chosen = which >> (4 * place) & 0xfU;
            const u32 byte = static_cast<u32>(bytes >> (8 * (chosen & 7U)) & 0xffU);
            result |= ((chosen & 8U) == 0 ? byte : (byte >> 7U) * 0xffU) << (8 * place);
        }
        return result;
    });
    t["bfi.b32"] = insert_bits<u32>();
    t["bfi.b64"] = insert_bits<u64>();
    t["and.pred"] = logic([](Lanes x, Lanes y) { return x & y; });
    t["or.pred"] = logic([](Lanes x, Lanes y) { return x | y; });
    t["xor.pred"] = logic([](Lanes x, Lanes y) { return x ^ y; });
    t["not.pred"] = logic([](Lanes x, Lanes) { return ~x; });
    t["mov.pred"] = logic([](Lanes x, Lanes) { return x; });
    // In this machine an address of global memory is already generic.
    t["cvta.to.global.u64"] = t["mov.u64"];
}

} // namespace truestep::simulator
