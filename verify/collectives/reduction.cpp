// Finds which reduction explains a result, for each number type, within the error of any order.
#include <truestep/verify/collectives/reduction.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace truestep::verify::collectives {

namespace {

constexpr std::array<std::string_view, op_count> op_names{"SUM", "AVG",  "PRODUCT", "MIN",
                                                          "MAX", "BAND", "BOR",     "BXOR"};

constexpr double bf16_most = 0x1.fep127;
constexpr std::array<Type, 12> types{{
    {"float32", 4, Kind::floating, 0x1p-24, 0x1p-149,
     static_cast<double>(std::numeric_limits<float>::max())},
    {"float64", 8, Kind::floating, 0x1p-53, 0x1p-1074, std::numeric_limits<double>::max()},
    {"bfloat16", 2, Kind::floating, 0x1p-8, 0x1p-133, bf16_most},
    {"float16", 2, Kind::floating, 0x1p-11, 0x1p-24, 65504.0},
    {"int8", 1, Kind::whole, 0, 0, 0},
    {"int16", 2, Kind::whole, 0, 0, 0},
    {"int32", 4, Kind::whole, 0, 0, 0},
    {"int64", 8, Kind::whole, 0, 0, 0},
    {"uint8", 1, Kind::natural, 0, 0, 0},
    {"bool", 1, Kind::boolean, 0, 0, 0},
    {"complex64", 4, Kind::floating, 0x1p-24, 0x1p-149,
     static_cast<double>(std::numeric_limits<float>::max())},
    {"complex128", 8, Kind::floating, 0x1p-53, 0x1p-1074, std::numeric_limits<double>::max()},
}};

std::uint64_t bits_at(const Type& type, std::span<const std::byte> values, std::size_t at) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, values.data() + at * type.size, type.size);
    return bits;
}

double half_precision(std::uint64_t bits) {
    const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
    const auto exponent = static_cast<int>(bits >> 10U & 0x1fU);
    const auto fraction = static_cast<double>(bits & 0x3ffU);
    if (exponent == 0x1f)
        return fraction == 0.0 ? sign * std::numeric_limits<double>::infinity()
                               : std::numeric_limits<double>::quiet_NaN();
    return exponent == 0 ? sign * std::ldexp(fraction, -24)
                         : sign * std::ldexp(fraction + 1024.0, exponent - 25);
}

double floating(const Type& type, std::uint64_t bits) {
    if (type.size == 8)
        return std::bit_cast<double>(bits);
    if (type.size == 4)
        return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (type.name == "bfloat16")
        return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits << 16U)));
    return half_precision(bits);
}

/// The bits of a whole number of this type, with its sign.
std::int64_t whole(const Type& type, std::uint64_t bits) {
    const unsigned unused = 64U - 8U * static_cast<unsigned>(type.size);
    if (type.kind == Kind::boolean)
        return bits != 0 ? 1 : 0;
    if (type.kind == Kind::natural)
        return static_cast<std::int64_t>(bits);
    return static_cast<std::int64_t>(bits << unused) >> unused;
}

/// Higham's gamma: n roundings in a row are off by at most this, relatively.
double gamma(double roundings, double unit) {
    return roundings * unit / (1.0 - roundings * unit);
}

class Explainer {
  public:
    explicit Explainer(const Type& type, std::size_t ranks)
        : type_(type), ranks_(static_cast<double>(ranks)),
          // Of fp64 the sum that is compared with may be off as much itself.
          twice_(type.size == 8 ? 2.0 : 1.0) {}

    Explanation result;

    void add_floating(const std::vector<double>& x, double y) {
        double sum = 0.0;
        double absolute = 0.0;
        double product = 1.0;
        double small =
            1.0; // the product of those below 1, and of those above: what an order may meet on its way
        double large = 1.0;
        bool finite = true;
        for (const double value : x) {
            sum += value;
            absolute += std::abs(value);
            product *= value;
            (std::abs(value) < 1.0 ? small : large) *= std::abs(value);
            finite = finite && std::isfinite(value);
        }
        const auto [least, greatest] = std::ranges::minmax(x);
        if (!finite)
            return add_infinite(x, y);
        const double adding = twice_ * gamma(ranks_ - 1, type_.unit);
        const bool overflows = absolute * (1.0 + adding) > type_.most;
        const bool passes = overflows && !std::isfinite(y);
        settle(Op::sum, passes, sum, adding * absolute, y);
        const double dividing =
            twice_ * gamma(ranks_ + 1, type_.unit) * absolute / ranks_ + (ranks_ + 1) * type_.least;
        settle(Op::mean, passes, sum / ranks_, ranks_ > 1 ? dividing : 0.0, y);
        const bool strays = small < type_.least / type_.unit || large > type_.most;
        settle(Op::product, strays, product, twice_ * gamma(ranks_ - 1, type_.unit) * std::abs(product), y);
        settle(Op::min, false, least, 0.0, y);
        settle(Op::max, false, greatest, 0.0, y);
        for (const Op op : {Op::band, Op::bor, Op::bxor})
            settle(op, false, std::numeric_limits<double>::quiet_NaN(), 0.0, y);
        if (std::isfinite(y))
            scaled_.push_back({sum, absolute, y});
        ++result.values;
    }

    void add_whole(const std::vector<std::int64_t>& x, std::int64_t y) {
        std::uint64_t sum = 0;
        std::uint64_t product = 1;
        std::array<std::int64_t, 3> bits{x[0], 0, 0}; // and, or, exclusive or
        double exact = 0.0;
        for (const std::int64_t value : x) {
            sum += static_cast<std::uint64_t>(value);
            product *= static_cast<std::uint64_t>(value);
            exact += static_cast<double>(value);
            bits[0] &= value;
            bits[1] |= value;
            bits[2] ^= value;
        }
        const auto [least, greatest] = std::ranges::minmax(x);
        const bool truth = type_.kind == Kind::boolean;
        const std::int64_t total = truth ? greatest : whole(type_, cut(sum));
        settle_whole(Op::sum, total, y);
        const auto ranks = static_cast<std::int64_t>(ranks_);
        const std::int64_t down = total / ranks - (total % ranks < 0 ? 1 : 0);
        settle_whole(Op::mean, y == down ? down : total / ranks, y);
        settle_whole(Op::product, truth ? least : whole(type_, cut(product)), y);
        settle_whole(Op::min, least, y);
        settle_whole(Op::max, greatest, y);
        settle_whole(Op::band, bits[0], y);
        settle_whole(Op::bor, bits[1], y);
        settle_whole(Op::bxor, bits[2], y);
        scaled_.push_back({exact, std::abs(exact), static_cast<double>(y)});
        ++result.values;
    }

    void find_factor() {
        if (result.any() || scaled_.size() != static_cast<std::size_t>(result.values))
            return;
        const auto clearest =
            std::ranges::max_element(scaled_, {}, [](const Scaled& one) { return std::abs(one.sum); });
        if (clearest->sum == 0.0)
            return;
        const double factor = clearest->y / clearest->sum;
        const double roundings = twice_ * gamma(ranks_ + 3, type_.unit);
        const double own = roundings * clearest->absolute / std::abs(clearest->sum);
        Index nonzero = 0;
        for (const Scaled& one : scaled_) {
            const double bound = std::abs(factor) * (roundings * one.absolute + own * std::abs(one.sum)) +
                                 (ranks_ + 3) * type_.least;
            if (std::abs(one.y - factor * one.sum) > bound)
                return;
            nonzero += std::abs(factor * one.sum) > 4.0 * bound ? 1 : 0;
        }
        if (nonzero >= 3)
            result.factor = factor;
    }

  private:
    struct Scaled {
        double sum;
        double absolute;
        double y;
    };

    [[nodiscard]] std::uint64_t cut(std::uint64_t value) const {
        return type_.size == 8 ? value : value & ((std::uint64_t{1} << 8U * type_.size) - 1);
    }

    void settle(Op op, bool passes, double expected, double bound, double y) {
        // Subtracting and comparing in double rounds, too, by a share that no type above fp64 notices.
        if (passes || y == expected || std::abs(y - expected) <= bound * (1.0 + 0x1p-20))
            return;
        count(op, expected, bound, y);
    }

    void settle_whole(Op op, std::int64_t expected, std::int64_t y) {
        if (y != expected)
            count(op, static_cast<double>(expected), 0.0, static_cast<double>(y));
    }

    /// Of what is not finite some reduction of any order is not finite; a maximum may keep it or pass it
    /// over.
    void add_infinite(const std::vector<double>& x, double y) {
        const bool kept = std::isnan(y) || std::ranges::find(x, y) != x.end();
        for (const Op op :
             {Op::sum, Op::mean, Op::product, Op::min, Op::max, Op::band, Op::bor, Op::bxor}) {
            const bool extreme = op == Op::min || op == Op::max;
            if (extreme ? !kept : std::isfinite(y))
                count(op, std::numeric_limits<double>::quiet_NaN(), 0.0, y);
        }
        ++result.values;
    }

    void count(Op op, double expected, double bound, double y) {
        Outcome& outcome = result.of[static_cast<std::size_t>(op)];
        if (outcome.wrong++ == 0)
            outcome = {1, result.values, expected, bound, y};
    }

    const Type& type_;
    double ranks_;
    double twice_;
    std::vector<Scaled> scaled_;
};

} // namespace

const Type* find_type(std::string_view name) {
    const auto found = std::ranges::find(types, name, &Type::name);
    return found == types.end() ? nullptr : &*found;
}

std::string_view name(Op op) {
    return op_names[static_cast<std::size_t>(op)];
}

std::optional<Op> find_op(std::string_view name) {
    const auto found = std::ranges::find(op_names, name);
    if (found == op_names.end())
        return std::nullopt;
    return static_cast<Op>(found - op_names.begin());
}

bool Explanation::any() const {
    return std::ranges::any_of(of, [](const Outcome& outcome) { return outcome.wrong == 0; });
}

Op Explanation::closest() const {
    return static_cast<Op>(std::ranges::min_element(of, {}, &Outcome::wrong) - of.begin());
}

double value_at(const Type& type, std::span<const std::byte> values, Index at) {
    const std::uint64_t bits = bits_at(type, values, static_cast<std::size_t>(at));
    return type.kind == Kind::floating ? floating(type, bits) : static_cast<double>(whole(type, bits));
}

Explanation explain(const Type& type, const std::vector<std::span<const std::byte>>& inputs,
                    std::span<const std::byte> output) {
    Explainer explainer(type, inputs.size());
    std::vector<double> x(inputs.size());
    std::vector<std::int64_t> n(inputs.size());
    for (std::size_t at = 0; at < output.size() / type.size; ++at) {
        const std::uint64_t y = bits_at(type, output, at);
        for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
            const std::uint64_t bits = bits_at(type, inputs[rank], at);
            if (type.kind == Kind::floating)
                x[rank] = floating(type, bits);
            else
                n[rank] = whole(type, bits);
        }
        if (type.kind == Kind::floating)
            explainer.add_floating(x, floating(type, y));
        else
            explainer.add_whole(n, whole(type, y));
    }
    explainer.find_factor();
    return explainer.result;
}

} // namespace truestep::verify::collectives
