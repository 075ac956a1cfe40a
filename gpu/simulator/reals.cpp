// Instructions on floats, rounded to nearest as the specification requires; and conversions.
#include <cmath>
#include <type_traits>

#include "evaluate.hpp"

namespace truestep::simulator {

namespace {

/// The smaller number; of two zeros the negative one; of a NaN and a number, the number.
template <class T>
T smaller(T x, T y) {
    if (std::isnan(x))
        return y;
    if (std::isnan(y))
        return x;
    if (x == y)
        return std::signbit(x) ? x : y;
    return x < y ? x : y;
}

template <class T>
void add_arithmetic_of(Table& t, const std::string& n) {
    for (const std::string rounded : {".rn.", "."}) {
        t["add" + rounded + n] = two<T, T, T>([](T x, T y) { return x + y; });
        t["sub" + rounded + n] = two<T, T, T>([](T x, T y) { return x - y; });
        t["mul" + rounded + n] = two<T, T, T>([](T x, T y) { return x * y; });
    }
    t["div.rn." + n] = two<T, T, T>([](T x, T y) { return x / y; });
    t["sqrt.rn." + n] = one<T, T>([](T x) { return std::sqrt(x); });
    t["fma.rn." + n] = three<T, T, T>([](T x, T y, T z) { return std::fma(x, y, z); });
    t["abs." + n] = one<T, T>([](T x) { return std::fabs(x); });
    t["neg." + n] = one<T, T>([](T x) { return -x; });
    t["min." + n] = two<T, T, T>([](T x, T y) { return smaller(x, y); });
    t["max." + n] = two<T, T, T>([](T x, T y) { return -smaller(-x, -y); });
}

template <class T>
void add_relations_of(Table& t, const std::string& n) {
    // Ordered relations are false for a NaN, unordered ones (with a u) are true.
    const auto both = [&](const std::string& op, auto relation) {
        t["setp." + op + "." + n] = compare<T>(relation);
        t["setp." + op + "u." + n] = compare<T>(
            [](T x, T y) { return std::isnan(x) || std::isnan(y) || decltype(relation){}(x, y); });
    };
    both("eq", [](T x, T y) { return x == y; });
    both("ne", [](T x, T y) { return x < y || x > y; });
    both("lt", [](T x, T y) { return x < y; });
    both("le", [](T x, T y) { return x <= y; });
    both("gt", [](T x, T y) { return x > y; });
    both("ge", [](T x, T y) { return x >= y; });
    t["setp.nan." + n] = compare<T>([](T x, T y) { return std::isnan(x) || std::isnan(y); });
    t["setp.num." + n] = compare<T>([](T x, T y) { return !std::isnan(x) && !std::isnan(y); });
}

template <class T>
void add_type(Table& t, const std::string& n) {
    add_arithmetic_of<T>(t, n);
    add_relations_of<T>(t, n);
    // These copy bits unchanged.
    const std::string bits = "b" + n.substr(1);
    for (const std::string op : {"mov.", "selp."})
        t[op + n] = t[op + bits];
}

template <class D, class A>
void add_conversion(Table& t, const std::string& to, const std::string& from) {
    t["cvt." + to + "." + from] = one<D, A>([](A x) { return static_cast<D>(x); });
}

template <class A>
void add_conversions_of(Table& t, const std::string& from) {
    add_conversion<std::uint8_t, A>(t, "u8", from);
    add_conversion<std::uint16_t, A>(t, "u16", from);
    add_conversion<std::uint32_t, A>(t, "u32", from);
    add_conversion<std::uint64_t, A>(t, "u64", from);
    add_conversion<std::int8_t, A>(t, "s8", from);
    add_conversion<std::int16_t, A>(t, "s16", from);
    add_conversion<std::int32_t, A>(t, "s32", from);
    add_conversion<std::int64_t, A>(t, "s64", from);
    add_conversion<float, A>(t, "rn.f32", from);
    add_conversion<double, A>(t, "rn.f64", from);
}

} // namespace

void add_reals(Table& t) {
    add_type<float>(t, "f32");
    add_type<double>(t, "f64");
}

void add_conversions(Table& t) {
    add_conversions_of<std::uint8_t>(t, "u8");
    add_conversions_of<std::uint16_t>(t, "u16");
    add_conversions_of<std::uint32_t>(t, "u32");
    add_conversions_of<std::uint64_t>(t, "u64");
    add_conversions_of<std::int8_t>(t, "s8");
    add_conversions_of<std::int16_t>(t, "s16");
    add_conversions_of<std::int32_t>(t, "s32");
    add_conversions_of<std::int64_t>(t, "s64");
    add_conversion<double, float>(t, "f64", "f32");
    add_conversion<float, double>(t, "rn.f32", "f64");
}

const Table& instructions() {
    static const Table all = [] {
        Table table;
        add_integers(table);
        add_reals(table);
        add_conversions(table);
        add_accesses(table);
        return table;
    }();
    return all;
}

} // namespace truestep::simulator
