// Computes section 5's formulas with MPFR: each operation with 200 bits, then rounded once.
#include "oracle.hpp"

#include <array>
#include <cstddef>

#include <mpfr.h>

namespace truestep::properties::scape::floats {

namespace {

constexpr mpfr_prec_t working_precision = 200;

/// A format's precision, and the range of its exponents as MPFR counts them (a significand below 1).
struct Format {
    mpfr_prec_t precision;
    mpfr_exp_t least;
    mpfr_exp_t greatest;
};
constexpr Format fp32{24, -148, 128};
constexpr Format fp64{53, -1073, 1024};

class Variable {
  public:
    explicit Variable(mpfr_prec_t precision) { mpfr_init2(variable_, precision); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
    Variable(Variable&&) = delete;
    Variable& operator=(Variable&&) = delete;
    ~Variable() { mpfr_clear(variable_); }
    mpfr_ptr get() { return variable_; }

  private:
    mpfr_t variable_;
};

struct Registers {
    Variable a{working_precision};
    Variable b{working_precision};
    Variable result{working_precision};
    Variable narrow{fp32.precision};
    Variable wide{fp64.precision};
};

Registers& registers() {
    thread_local Registers all;
    return all;
}

/// Rounds `from` to a format, in which its value is then exact.
void round_to(const Format& format, mpfr_ptr to, mpfr_srcptr from) {
    const mpfr_exp_t least = mpfr_get_emin();
    const mpfr_exp_t greatest = mpfr_get_emax();
    int direction = mpfr_set(to, from, MPFR_RNDN);
    mpfr_set_emin(format.least);
    mpfr_set_emax(format.greatest);
    direction = mpfr_check_range(to, direction, MPFR_RNDN);
    mpfr_subnormalize(to, direction, MPFR_RNDN);
    mpfr_set_emin(least);
    mpfr_set_emax(greatest);
}

using Operation = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);

int root_of_first(mpfr_ptr to, mpfr_srcptr from, mpfr_srcptr, mpfr_rnd_t rounding) {
    return mpfr_sqrt(to, from, rounding);
}

Number apply(Operation operation, Number a, Number b) {
    Registers& r = registers();
    mpfr_set_flt(r.a.get(), a.value, MPFR_RNDN);
    mpfr_set_flt(r.b.get(), b.value, MPFR_RNDN);
    operation(r.result.get(), r.a.get(), r.b.get(), MPFR_RNDN);
    round_to(fp32, r.narrow.get(), r.result.get());
    return {mpfr_get_flt(r.narrow.get(), MPFR_RNDN)};
}

Wide apply(Operation operation, Wide a, Wide b) {
    Registers& r = registers();
    mpfr_set_d(r.a.get(), a.value, MPFR_RNDN);
    mpfr_set_d(r.b.get(), b.value, MPFR_RNDN);
    operation(r.result.get(), r.a.get(), r.b.get(), MPFR_RNDN);
    round_to(fp64, r.wide.get(), r.result.get());
    return {mpfr_get_d(r.wide.get(), MPFR_RNDN)};
}

} // namespace

Number operator+(Number a, Number b) {
    return apply(mpfr_add, a, b);
}
Number operator-(Number a, Number b) {
    return apply(mpfr_sub, a, b);
}
Number operator*(Number a, Number b) {
    return apply(mpfr_mul, a, b);
}
Number operator/(Number a, Number b) {
    return apply(mpfr_div, a, b);
}
Number root(Number a) {
    return apply(root_of_first, a, a);
}
Wide operator+(Wide a, Wide b) {
    return apply(mpfr_add, a, b);
}
Wide operator-(Wide a, Wide b) {
    return apply(mpfr_sub, a, b);
}
Wide operator*(Wide a, Wide b) {
    return apply(mpfr_mul, a, b);
}
Wide operator/(Wide a, Wide b) {
    return apply(mpfr_div, a, b);
}
Wide root(Wide a) {
    return apply(root_of_first, a, a);
}
Number narrowed(Wide a) {
    Registers& r = registers();
    mpfr_set_d(r.a.get(), a.value, MPFR_RNDN);
    round_to(fp32, r.narrow.get(), r.a.get());
    return {mpfr_get_flt(r.narrow.get(), MPFR_RNDN)};
}

namespace oracle {

Scalars scalars(const problem::HyperParameters& settings, int workers, problem::Index t,
                double learning_rate) {
    using problem::BiasCorrection;
    const Wide one{1.0};
    const auto correction = [&](double beta) { // 1 - beta^t
        Wide result = one;
        Wide base{beta};
        for (problem::Index rest = t; rest > 0; rest /= 2) {
            if (rest % 2 == 1)
                result = result * base;
            base = base * base;
        }
        return one - result;
    };
    Scalars s;
    s.b1 = narrowed({settings.beta1}).value;
    s.a1 = narrowed(one - Wide{settings.beta1}).value;
    s.b2 = narrowed({settings.beta2}).value;
    s.a2 = narrowed(one - Wide{settings.beta2}).value;
    s.epsilon = narrowed({settings.epsilon}).value;
    s.learning_rate = narrowed({learning_rate}).value;
    s.decay = narrowed(one - (Wide{learning_rate} * Wide{settings.weight_decay})).value;
    s.inv1 = settings.bias_correction == BiasCorrection::none
                 ? 1.0F
                 : narrowed(one / correction(settings.beta1)).value;
    s.invs2 = settings.bias_correction == BiasCorrection::adam
                  ? narrowed(one / root(correction(settings.beta2))).value
                  : 1.0F;
    s.workers = narrowed({static_cast<double>(workers)}).value;
    return s;
}

Number local(const Scalars& s, Number m, Number g, Number e) {
    return ((exactly(s.b1) * m) + (exactly(s.a1) * g)) + e;
}

Number mean(const Scalars& s, const Number* parts, int workers) {
    Number sum = parts[0];
    for (int rank = 1; rank < workers; ++rank)
        sum = sum + parts[rank];
    return sum / exactly(s.workers);
}

Number reconstruct(const Scalars& s, Number M, Number m) {
    return (M - (exactly(s.b1) * m)) / exactly(s.a1);
}

Number moment(const Scalars& s, Number m, Number ghat) {
    return (exactly(s.b1) * m) + (exactly(s.a1) * ghat);
}

Number direction(const Scalars& s, bool momentum, Number M, Number m, Number ghat) {
    const Number b2 = exactly(s.b2);
    const Number a2 = exactly(s.a2);
    const Number inv1 = exactly(s.inv1);
    const Number eps = exactly(s.epsilon);
    if (momentum) {
        const Number q = m * inv1;
        return (M * inv1) / (root((b2 * (q * q)) + (a2 * (ghat * ghat))) + eps);
    }
    const Number v = (b2 * (m * m)) + (a2 * (ghat * ghat));
    return (M * inv1) / ((root(v) * exactly(s.invs2)) + eps);
}

Number decayed(const Scalars& s, Number w) {
    return w * exactly(s.decay);
}

Number update(const Scalars& s, Number decayed, Number u) {
    return decayed - (exactly(s.learning_rate) * u);
}

double square_sum(const float* values, int size) {
    constexpr std::size_t lane_count = 256;
    std::array<Wide, lane_count> lane{};
    for (int i = 0; i < size; ++i) {
        const Wide value{static_cast<double>(values[i])};
        Wide& sum = lane[static_cast<std::size_t>(i) % lane_count];
        sum = sum + (value * value);
    }
    for (std::size_t half = lane_count / 2; half > 0; half /= 2)
        for (std::size_t j = 0; j < half; ++j)
            lane[j] = lane[j] + lane[j + half];
    return lane[0].value;
}

} // namespace oracle

} // namespace truestep::properties::scape::floats
