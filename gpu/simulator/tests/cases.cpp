// The expected results of each opcode, computed independently: bit by bit, or in wider numbers,
// where the machine uses one operation.
#include "cases.hpp"

#include <bit>
#include <cfenv>
#include <cmath>

namespace truestep::simulator::tests {
namespace {

using u64 = std::uint64_t;
using s64 = std::int64_t;
using Row = std::vector<u64>;
__extension__ using Wide = __int128;

int width_of(const std::string& type) {
    return std::stoi(type.substr(1));
}
char letter_of(const std::string& type) {
    const int width = width_of(type);
    return type[0] == 'f' ? (width == 32 ? 'f' : 'd') : width == 16 ? 'h' : width == 32 ? 'w' : 'l';
}
/// A value of a type as an integer that is wide enough for any.
Wide whole(u64 bits, const std::string& type) {
    const int width = width_of(type);
    Wide value = 0;
    for (int bit = 0; bit < width; ++bit)
        if ((bits >> bit & 1U) != 0)
            value += type[0] == 's' && bit == width - 1 ? -(Wide{1} << bit) : Wide{1} << bit;
    return value;
}
u64 low(Wide value) {
    return static_cast<u64>(value);
}
float as_float(u64 bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}
double as_double(u64 bits) {
    return std::bit_cast<double>(bits);
}
u64 float_bits(float value) {
    return std::isnan(value) ? 0x7fff'ffffU : std::bit_cast<std::uint32_t>(value);
}
u64 double_bits(double value) {
    return std::isnan(value) ? 0x7fff'ffff'ffff'ffffU : std::bit_cast<u64>(value);
}

class Cases {
  public:
    std::vector<OpcodeCase> all;

    void wholes() {
        for (const std::string t : {"s16", "s32", "s64", "u32", "u64"})
            two("add." + t, t, [t](u64 a, u64 b) { return low(whole(a, t) + whole(b, t)); });
        for (const std::string t : {"s32", "s64"}) {
            two("sub." + t, t, [t](u64 a, u64 b) { return low(whole(a, t) - whole(b, t)); });
            one("neg." + t, t, [t](u64 a) { return low(-whole(a, t)); });
        }
        for (const std::string t : {"s32", "s64"})
            two("mul.lo." + t, t, [](u64 a, u64 b) { // long multiplication
                u64 sum = 0;
                for (unsigned bit = 0; bit < 64; ++bit)
                    sum += (b >> bit & 1U) != 0 ? a << bit : 0;
                return sum;
            });
        two("mul.hi.s64", "s64",
            [](u64 a, u64 b) { return low((whole(a, "s64") * whole(b, "s64")) >> 64); });
        for (const std::string t : {"s32", "u32", "u16"})
            add("mul.wide." + t, t == "u16" ? 'w' : 'l', {letter_of(t), letter_of(t)},
                [t](const Row& r) { return low(whole(r[0], t) * whole(r[1], t)); });
        add("mad.lo.s32", 'w', "www", [](const Row& r) { return r[0] * r[1] + r[2]; });
        for (const std::string t : {"s32", "s64", "u32", "u64"}) {
            two("div." + t, t, [t](u64 a, u64 b) { // bit by bit
                const Wide x = whole(a, t);
                const Wide y = whole(b, t);
                if (y == 0)
                    return low(-1);
                Wide left = x < 0 ? -x : x;
                const Wide by = y < 0 ? -y : y;
                Wide quotient = 0;
                for (int bit = 63; bit >= 0; --bit)
                    if (left >> bit >= by) {
                        left -= by << bit;
                        quotient += Wide{1} << bit;
                    }
                return low((x < 0) != (y < 0) ? -quotient : quotient);
            });
            two("min." + t, t, [t](u64 a, u64 b) { return whole(a, t) < whole(b, t) ? a : b; });
            two("max." + t, t, [t](u64 a, u64 b) { return whole(a, t) < whole(b, t) ? b : a; });
        }
        add("prmt.b32", 'w', "www", [](const Row& r) {
            u64 result = 0;
            for (unsigned bit = 0; bit < 32; ++bit) {
                const u64 chosen = r[2] >> (bit / 8 * 4) & 0xfU;
                const u64 place = 8 * (chosen % 8) + (chosen < 8 ? bit % 8 : 7U);
                result |= ((place < 32 ? r[0] >> place : r[1] >> (place - 32)) & 1U) << bit;
            }
            return result;
        });
        bits();
        relations();
    }

    void conversions() {
        for (const auto& [to, from] : std::vector<std::pair<std::string, std::string>>{{"s64", "s32"},
                                                                                       {"u16", "u32"},
                                                                                       {"u16", "u64"},
                                                                                       {"u32", "u16"},
                                                                                       {"u32", "u64"},
                                                                                       {"u64", "u16"},
                                                                                       {"u64", "u32"}})
            add("cvt." + to + "." + from, letter_of(to), {letter_of(from)},
                [from](const Row& r) { return low(whole(r[0], from)); });
        add("cvt.f64.f32", 'd', "f", [](const Row& r) { return double_bits(double{as_float(r[0])}); });
        // Rounds to nearest, ties to even, by the distances to both neighbours.
        add("cvt.rn.f32.f64", 'f', "d",
            [](const Row& r) { return float_bits(static_cast<float>(as_double(r[0]))); });
        add("cvt.rn.f32.u32", 'f', "w", [](const Row& r) { // by way of what holds all of them
            return float_bits(static_cast<float>(static_cast<double>(r[0])));
        });
        add("cvta.to.global.u64", 'l', "l", [](const Row& r) { return r[0]; });
        for (const std::string t : {"b16", "b32", "b64", "u16", "u32", "u64", "f32", "f64"})
            one("mov." + t, t, [](u64 a) { return a; });
        for (const std::string t : {"b32", "b64", "f32", "u16", "u32", "u64", "b16", "f64"})
            add("selp." + t, letter_of(t), {letter_of(t), letter_of(t), 'p'},
                [](const Row& r) { return r[2] != 0 ? r[0] : r[1]; });
    }

    void predicates() {
        add("and.pred", 'p', "pp", [](const Row& r) { return r[0] * r[1]; });
        add("or.pred", 'p', "pp", [](const Row& r) { return r[0] + r[1] > 0 ? 1U : 0U; });
        add("xor.pred", 'p', "pp", [](const Row& r) { return r[0] != r[1] ? 1U : 0U; });
        add("not.pred", 'p', "p", [](const Row& r) { return 1 - r[0]; });
        add("mov.pred", 'p', "p", [](const Row& r) { return r[0]; });
    }

    void floats() {
        real("add.rn", [](auto a, auto b) { return a + b; });
        real("sub.rn", [](auto a, auto b) { return a - b; });
        real("mul.rn", [](auto a, auto b) { return a * b; });
        real("div.rn", [](auto a, auto b) { return a / b; });
        real("min", [](auto a, auto b) {
            if (a == b)
                return std::signbit(a) ? a : b;
            return std::fmin(a, b);
        });
        for (const bool wide : {false, true}) {
            const char t = wide ? 'd' : 'f';
            const std::string suffix = wide ? ".f64" : ".f32";
            const auto as = [wide](u64 bits) { return wide ? as_double(bits) : double{as_float(bits)}; };
            add("sqrt.rn" + suffix, t, {t}, [wide](const Row& r) {
                return wide ? double_bits(std::sqrt(as_double(r[0])))
                            : float_bits(std::sqrt(as_float(r[0])));
            });
            add("abs" + suffix, t, {t}, [=](const Row& r) {
                const u64 sign = u64{1} << (wide ? 63U : 31U);
                return std::isnan(as(r[0])) ? (wide ? double_bits(NAN) : float_bits(NAN)) : r[0] & ~sign;
            });
            add("fma.rn" + suffix, t, {t, t, t}, [wide](const Row& r) {
                return wide ? double_bits(std::fma(as_double(r[0]), as_double(r[1]), as_double(r[2])))
                            : float_bits(std::fma(as_float(r[0]), as_float(r[1]), as_float(r[2])));
            });
            const auto relation = [&](const std::string& op, auto holds) {
                add("setp." + op + suffix, 'p', {t, t},
                    [=](const Row& r) { return holds(as(r[0]), as(r[1])) ? 1U : 0U; });
            };
            relation("eq", [](double a, double b) { return a == b; });
            relation("le", [](double a, double b) { return a <= b; });
            relation("lt", [](double a, double b) { return a < b; });
            relation("gt", [](double a, double b) { return a > b; });
            relation("ge", [](double a, double b) { return a >= b; });
            relation("neu", [](double a, double b) { return !(a == b); });
            relation("ltu", [](double a, double b) { return !(a >= b); });
            relation("gtu", [](double a, double b) { return !(a <= b); });
            relation("leu", [](double a, double b) { return !(a > b); });
            relation("geu", [](double a, double b) { return !(a < b); });
        }
    }

  private:
    void add(const std::string& opcode, char result, const std::string& operands,
             std::function<u64(const Row&)> plain) {
        all.push_back({opcode, result, operands, std::move(plain)});
    }
    void one(const std::string& opcode, const std::string& type, std::function<u64(u64)> plain) {
        add(opcode, letter_of(type), {letter_of(type)}, [plain](const Row& r) { return plain(r[0]); });
    }
    void two(const std::string& opcode, const std::string& type, std::function<u64(u64, u64)> plain) {
        add(opcode, letter_of(type), {letter_of(type), letter_of(type)},
            [plain](const Row& r) { return plain(r[0], r[1]); });
    }

    /// Builds a result bit by bit.
    static u64 each_bit(int width, const std::function<bool(int)>& bit) {
        u64 result = 0;
        for (int i = 0; i < width; ++i)
            result |= static_cast<u64>(bit(i)) << i;
        return result;
    }

    void bits() {
        const auto has = [](u64 a, int bit) { return (a >> bit & 1U) != 0; };
        for (const std::string t : {"b16", "b32", "b64"}) {
            const int width = width_of(t);
            two("and." + t, t, [=](u64 a, u64 b) {
                return each_bit(width, [&](int i) { return has(a, i) && has(b, i); });
            });
            two("or." + t, t, [=](u64 a, u64 b) {
                return each_bit(width, [&](int i) { return has(a, i) || has(b, i); });
            });
            two("xor." + t, t, [=](u64 a, u64 b) {
                return each_bit(width, [&](int i) { return has(a, i) != has(b, i); });
            });
            one("not." + t, t, [=](u64 a) { return each_bit(width, [&](int i) { return !has(a, i); }); });
            add("shl." + t, letter_of(t), {letter_of(t), 'w'}, [=](const Row& r) {
                return each_bit(width, [&](int i) {
                    return static_cast<u64>(i) >= r[1] && has(r[0], i - static_cast<int>(r[1]));
                });
            });
        }
        for (const std::string t : {"s16", "s32", "s64", "u16", "u32", "u64"})
            add("shr." + t, letter_of(t), {letter_of(t), 'w'}, [=](const Row& r) {
                const int width = width_of(t);
                const bool sign = t[0] == 's' && has(r[0], width - 1);
                return each_bit(width, [&](int i) {
                    const u64 from = static_cast<u64>(i) + r[1];
                    return from < static_cast<u64>(width) ? has(r[0], static_cast<int>(from)) : sign;
                });
            });
        for (const std::string t : {"b32", "b64"}) {
            const int width = width_of(t);
            add("popc." + t, 'w', {letter_of(t)}, [=](const Row& r) {
                u64 count = 0;
                for (int i = 0; i < width; ++i)
                    count += has(r[0], i) ? 1U : 0U;
                return count;
            });
            add("clz." + t, 'w', {letter_of(t)}, [=](const Row& r) {
                int count = 0;
                while (count < width && !has(r[0], width - 1 - count))
                    ++count;
                return static_cast<u64>(count);
            });
            add("brev." + t, letter_of(t), {letter_of(t)}, [=](const Row& r) {
                return each_bit(width, [&](int i) { return has(r[0], width - 1 - i); });
            });
            add("bfi." + t, letter_of(t), {letter_of(t), letter_of(t), 'w', 'w'}, [=](const Row& r) {
                const int position = static_cast<int>(r[2] & 0xffU);
                const int length = static_cast<int>(r[3] & 0xffU);
                return each_bit(width, [&](int i) {
                    return i >= position && i < position + length ? has(r[0], i - position) : has(r[1], i);
                });
            });
        }
    }

    void relations() {
        const auto relation = [&](const std::string& op, auto holds) {
            for (const std::string t : {"s16", "s32", "s64", "u16", "u32", "u64"})
                add("setp." + op + "." + t, 'p', {letter_of(t), letter_of(t)},
                    [=](const Row& r) { return holds(whole(r[0], t) - whole(r[1], t)) ? 1U : 0U; });
        };
        relation("eq", [](Wide d) { return d == 0; });
        relation("ne", [](Wide d) { return d != 0; });
        relation("lt", [](Wide d) { return d < 0; });
        relation("le", [](Wide d) { return d <= 0; });
        relation("gt", [](Wide d) { return d > 0; });
        relation("ge", [](Wide d) { return d >= 0; });
        for (const std::string t : {"b16", "b32", "b64"})
            add("setp.eq." + t, 'p', {letter_of(t), letter_of(t)},
                [](const Row& r) { return r[0] == r[1] ? 1U : 0U; });
    }

    template <class F>
    void real(const std::string& opcode, F plain) {
        add(opcode + ".f32", 'f', "ff",
            [=](const Row& r) { return float_bits(plain(as_float(r[0]), as_float(r[1]))); });
        add(opcode + ".f64", 'd', "dd",
            [=](const Row& r) { return double_bits(plain(as_double(r[0]), as_double(r[1]))); });
    }
};

} // namespace

const std::vector<OpcodeCase>& opcode_cases() {
    static const std::vector<OpcodeCase> all = [] {
        Cases cases;
        cases.wholes();
        cases.conversions();
        cases.predicates();
        cases.floats();
        return cases.all;
    }();
    return all;
}

} // namespace truestep::simulator::tests
