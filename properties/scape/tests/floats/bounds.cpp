// Measures how much of REL's bounds honest and dishonest forms of section 5's formulas use.
#include "bounds.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <numeric>
#include <optional>
#include <vector>

#include <truestep/problem/density.hpp>
#include <truestep/reference/scape/scape.hpp>
#include <truestep/verify/scape/yardstick.hpp>
#include <truestep/verify/verdict.hpp>

#include "compare_forms.hpp"
#include "honest.hpp"
#include "shares.hpp"

namespace truestep::properties::scape::floats {

namespace {

using honest::Choice;
using problem::BiasCorrection;
using reference::Coefficients;
using reference::Vector;
using verify::Bounded;

constexpr Index together = 256; ///< coordinates of one drawn step

double widened(float value) {
    return static_cast<double>(value);
}

Vector<Bounded> exact(const std::vector<float>& values) {
    Vector<Bounded> result(static_cast<Index>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i)
        result[static_cast<Index>(i)] = Bounded(widened(values[i]));
    return result;
}

/// One step of SCAPE on `together` coordinates: settings, state and gradients.
struct Step {
    problem::HyperParameters settings;
    int workers = 1;
    Index number = 1;
    double learning_rate = 0.0;
    std::vector<std::vector<float>> g;
    std::vector<std::vector<float>> e;
    std::vector<float> m;
    std::vector<float> w;
};

/// Magnitudes so far below fp32's largest that nothing overflows, since the level does not cover overflows.
class Values {
  public:
    explicit Values(Random& random) : random_(random) {
        constexpr std::array spreads{1, 4, 12, 40};
        spread_ = random.of(spreads);
        constexpr int least = -149;
        constexpr int greatest = 46;
        lowest_ =
            least + static_cast<int>(random.below(static_cast<std::uint64_t>(greatest - least - spread_)));
        zeros_ = random.below(4) == 0;
        short_ = random.below(8) == 0;
    }
    std::vector<float> column() {
        std::vector<float> result;
        for (Index i = 0; i < together; ++i)
            result.push_back(one());
        return result;
    }

  private:
    float one() {
        if (zeros_ && random_.below(8) == 0)
            return random_.below(2) == 0 ? 0.0F : -0.0F;
        const int exponent = lowest_ + static_cast<int>(random_.below(static_cast<std::uint64_t>(spread_)));
        auto drawn = static_cast<Bits>(random_.bits());
        if (short_)
            drawn &= 0x8070'0000U;
        return static_cast<float>(std::ldexp(widened(floats::number(drawn >> 31U, 127, drawn)), exponent));
    }

    Random& random_;
    int spread_ = 1;
    int lowest_ = 0;
    bool zeros_ = false;
    bool short_ = false; ///< few bits, so that sums meet the middle of two floats
};

Step draw_step(Random& random) {
    constexpr std::array<double, 8> betas{0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, -1.0};
    constexpr std::array<double, 5> epsilons{1e-8, 1e-6, 1e-12, 1e-16, 1e-30};
    constexpr std::array<double, 4> decays{0.0, 0.01, 0.1, 1.0};
    constexpr std::array<Index, 6> steps{1, 2, 3, 10, 1000, 100'000};
    constexpr std::array corrections{BiasCorrection::none, BiasCorrection::adam, BiasCorrection::momentum};
    const auto beta = [&] {
        const double drawn = random.of(betas);
        return drawn < 0.0 ? random.unit() : drawn;
    };
    Step step;
    step.settings.beta1 = beta();
    step.settings.beta2 = beta();
    step.settings.epsilon = random.of(epsilons);
    step.settings.weight_decay = random.of(decays);
    step.settings.bias_correction = random.of(corrections);
    step.settings.clip_norm = random.below(4) == 0 ? std::pow(10.0, 4.0 - 8.0 * random.unit()) : 0.0;
    step.workers = 1 + static_cast<int>(random.below(5));
    step.number = random.of(steps);
    step.learning_rate = std::pow(10.0, -6.0 * random.unit());
    Values values(random);
    for (int rank = 0; rank < step.workers; ++rank) {
        step.g.push_back(values.column());
        step.e.push_back(random.below(3) == 0 ? std::vector<float>(together, 0.0F) : values.column());
    }
    step.m = values.column();
    step.w = random.below(2) == 0 ? values.column() : Values(random).column();
    return step;
}

/// The yardstick: the reference's own step on REL's scalar, from a recorded state, as a trace is verified.
struct Yardstick {
    reference::scape::ScapeStep<Bounded> step;
    Vector<Bounded> w;
};
std::optional<Yardstick> yardstick_of(const Step& step) {
    problem::Problem problem =
        problem::make_problem(problem::Algorithm::scape, step.workers, problem::Layout({{"x", together}}),
                              problem::PartitionRule::by_shard, step.settings);
    reference::scape::Scape<Bounded> scape(problem, problem::DensitySchedule::constant(1.0), exact(step.w));
    scape.state.step = step.number - 1;
    scape.state.m = exact(step.m);
    reference::Coordinates everywhere(static_cast<std::size_t>(together));
    std::iota(everywhere.begin(), everywhere.end(), Index{0});
    scape.state.S = everywhere;
    reference::PerRank<Bounded> gradients;
    for (std::size_t rank = 0; rank < step.g.size(); ++rank) {
        gradients.push_back(exact(step.g[rank]));
        scape.state.e[rank] = exact(step.e[rank]);
    }
    Yardstick result;
    result.step = scape.step(gradients, step.learning_rate);
    result.w = scape.state.w;
    return result;
}

/// The rows of the report.
enum Row : std::size_t {
    in_step_c,
    in_step_mean,
    in_step_ghat,
    in_step_clipped,
    in_step_w,
    alone_ghat,
    alone_u,
    alone_w,
    lerp_large_beta,
    lerp_small_beta,
    divided_before,
    decay_apart,
    epsilon_inside,
    moment_in_bf16,
    scalar_of_rounded,
    scalar_twice,
    row_count
};
enum class Kind : std::uint8_t { honest, measured, dishonest };
struct About {
    const char* name;
    Kind kind;
};
constexpr std::array<About, row_count> about{{{"in a step: c", Kind::honest},
                                              {"in a step: M before clipping", Kind::honest},
                                              {"in a step: ghat", Kind::honest},
                                              {"in a step: M, clipped", Kind::honest},
                                              {"in a step: w", Kind::honest},
                                              {"ghat of exact M, m", Kind::honest},
                                              {"u of exact M, m, ghat", Kind::honest},
                                              {"w of exact w, u", Kind::honest},
                                              {"M = m + a1*(g-m), beta1 >= 1/2", Kind::measured},
                                              {"M = m + a1*(g-m), beta1 < 1/2", Kind::measured},
                                              {"M = sum of c/P", Kind::measured},
                                              {"w - lr*u - (lr*wd)*w", Kind::measured},
                                              {"epsilon inside the root", Kind::dishonest},
                                              {"M in bf16", Kind::dishonest},
                                              {"a1 = 1 - b1 in fp32", Kind::dishonest},
                                              {"decay = 1 - lr*wd in fp32", Kind::dishonest}}};
using Rows = std::array<Shares, row_count>;

void judge(Rows& rows, Row row, const Bounded& expected, float actual) {
    rows[row].add(expected.value(), verify::rel_slack * expected.error(), actual);
}

/// The formulas by themselves: their inputs are fp32 numbers and bring no error along.
void judge_alone(Random& random, const Step& step, const std::vector<float>& M,
                 const std::vector<float>& ghat, Rows& rows) {
    const Coefficients<float> s(step.settings, step.number, step.learning_rate);
    const Coefficients<Bounded> bounds(step.settings, step.number, step.learning_rate);
    const BiasCorrection correction = step.settings.bias_correction;
    const Vector<Bounded> exact_m = exact(step.m);
    const Vector<Bounded> exact_M = exact(M);
    const Vector<Bounded> expected_u =
        reference::direction(correction, bounds, exact_M, exact_m, exact(ghat));
    std::vector<float> u;
    for (Index i = 0; i < together; ++i) {
        const auto at = static_cast<std::size_t>(i);
        Choice choice(random.bits());
        u.push_back(honest::direction(choice, s, correction, M[at], step.m[at], ghat[at]));
        judge(rows, alone_u, expected_u[i], u.back());
        judge(rows, alone_ghat, (exact_M[i] - (bounds.b1 * exact_m[i])) / bounds.a1,
              honest::reconstruct(choice, s, M[at], step.m[at]));

        const float inside = honest::squares(choice, s.b2, step.m[at], s.a2, ghat[at]) + s.eps;
        if (correction == BiasCorrection::none)
            judge(rows, epsilon_inside, expected_u[i], M[at] / std::sqrt(inside));
        const float half = floats::number(std::bit_cast<Bits>(M[at]) & 0xffff'0000U);
        judge(rows, moment_in_bf16, expected_u[i],
              honest::direction(choice, s, correction, half, step.m[at], ghat[at]));
    }
    reference::Coordinates everywhere(static_cast<std::size_t>(together));
    std::iota(everywhere.begin(), everywhere.end(), Index{0});
    Vector<Bounded> expected_w = exact(step.w);
    reference::apply(problem::DecayOrder::first, bounds, everywhere, exact(u), expected_w);
    const auto wd = static_cast<float>(step.settings.weight_decay);
    for (Index i = 0; i < together; ++i) {
        const auto at = static_cast<std::size_t>(i);
        Choice choice(random.bits());
        const float w = step.w[at];
        judge(rows, alone_w, expected_w[i], honest::update(choice, s, w, u[at]));
        judge(rows, decay_apart, expected_w[i], (w - (s.lr * u[at])) - ((s.lr * wd) * w));
        Coefficients<float> rounded = s;
        rounded.decay = 1.0F - (s.lr * wd);
        judge(rows, scalar_twice, expected_w[i], honest::update(choice, rounded, w, u[at]));
    }
}

/// Other formulas for M and its mean, of exact inputs.
void judge_moments(const Step& step, Rows& rows) {
    const Coefficients<float> s(step.settings, step.number, step.learning_rate);
    const Coefficients<Bounded> bounds(step.settings, step.number, step.learning_rate);
    const auto workers = static_cast<float>(step.workers);
    for (std::size_t i = 0; i < static_cast<std::size_t>(together); ++i) {
        const float m = step.m[i];
        const float g = step.g[0][i];
        const Bounded M = (bounds.b1 * Bounded(widened(m))) + (bounds.a1 * Bounded(widened(g)));
        judge(rows, step.settings.beta1 < 0.5 ? lerp_small_beta : lerp_large_beta, M,
              std::fma(s.a1, g - m, m));
        judge(rows, scalar_of_rounded, M, (s.b1 * m) + ((1.0F - s.b1) * g));
        Bounded sum(widened(step.g[0][i]));
        float divided = step.g[0][i] / workers;
        for (std::size_t rank = 1; rank < step.g.size(); ++rank) {
            sum = sum + Bounded(widened(step.g[rank][i]));
            divided = divided + (step.g[rank][i] / workers);
        }
        judge(rows, divided_before, sum / Bounded(widened(workers)), divided);
    }
}

void judge_step(std::uint64_t seed, Rows& rows) {
    Random random(seed);
    const Step step = draw_step(random);
    const std::optional<Yardstick> yardstick = yardstick_of(step);
    const Coefficients<float> s(step.settings, step.number, step.learning_rate);
    std::vector<Choice> choices;
    std::vector<float> M;
    std::vector<float> ghat;
    std::vector<float> parts(step.g.size());
    for (Index i = 0; i < together; ++i) {
        const auto at = static_cast<std::size_t>(i);
        Choice choice(random.bits());
        for (std::size_t rank = 0; rank < step.g.size(); ++rank)
            parts[rank] = honest::local(choice, s, step.m[at], step.g[rank][at], step.e[rank][at]);
        judge(rows, in_step_c, yardstick->step.c[0][i], parts[0]);
        M.push_back(honest::mean(choice, parts));
        judge(rows, in_step_mean, yardstick->step.exchanged[i], M.back());
        ghat.push_back(honest::reconstruct(choice, s, M.back(), step.m[at]));
        judge(rows, in_step_ghat, yardstick->step.ghat[i], ghat.back());
    }
    judge_alone(random, step, M, ghat, rows);
    judge_moments(step, rows);
    Choice choice(random.bits());
    const bool clipping = step.settings.clip_norm > 0.0;
    const float factor = clipping ? honest::clip_factor(choice, step.settings.clip_norm, ghat) : 1.0F;
    for (Index i = 0; i < together; ++i) {
        const auto at = static_cast<std::size_t>(i);
        Choice forms(random.bits());
        if (clipping) {
            ghat[at] = ghat[at] * factor;
            M[at] = honest::moment(forms, s, step.m[at], ghat[at]);
            judge(rows, in_step_clipped, yardstick->step.M[i], M[at]);
        }
        const float u =
            honest::direction(forms, s, step.settings.bias_correction, M[at], step.m[at], ghat[at]);
        judge(rows, in_step_w, yardstick->w[i], honest::update(forms, s, step.w[at], u));
    }
}

} // namespace

bool check_bounds(std::uint64_t draws, std::uint64_t seed, int threads,
                  const std::function<void(const std::string&)>& say) {
    Rows total;
    std::mutex mutex;
    constexpr std::uint64_t steps_at_once = 64;
    constexpr std::uint64_t draws_at_once = steps_at_once * static_cast<std::uint64_t>(together);
    in_parallel((draws + draws_at_once - 1) / draws_at_once, threads,
                [&](ThreadBuffers&, std::uint64_t number) {
                    Rows rows;
                    for (std::uint64_t i = 0; i < steps_at_once; ++i)
                        judge_step(Random(seed ^ ((number * steps_at_once + i) << 8U)).bits(), rows);
                    const std::lock_guard lock(mutex);
                    for (std::size_t row = 0; row < rows.size(); ++row)
                        total[row].add(rows[row]);
                });
    say(Shares::head());
    bool ok = true;
    for (std::size_t row = 0; row < total.size(); ++row) {
        const bool outside = total[row].outside > 0;
        const Kind kind = about[row].kind;
        const bool good = kind == Kind::measured || outside == (kind == Kind::dishonest);
        ok = ok && good && total[row].compared > 0;
        say(total[row].row(about[row].name) + (good ? "" : "    NOT AS IT HAS TO BE\n"));
    }
    return ok;
}

} // namespace truestep::properties::scape::floats
