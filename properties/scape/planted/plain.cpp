// Takes SCAPE's and AdamS's steps in plain loops, each of which may have a known bug.
#include <truestep/properties/scape/planted/plain.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/error.hpp>

#include "plain_rank.hpp"

namespace truestep::properties::scape::planted {

namespace {

float once(double value) {
    return static_cast<float>(value);
}

double power(double base, Index t) {
    double result = 1.0;
    for (; t > 0; t /= 2) {
        if (t % 2 == 1)
            result *= base;
        base *= base;
    }
    return result;
}

} // namespace

PlainRank::PlainRank(const properties::scape::Setup& setup, distributed::Communicator& communicator,
                     Bug bug, const Start& start)
    : problem_(setup.problem), ranges_(setup.ranges), density_(setup.density), communicator_(communicator),
      bug_(bug), norm_(start.norm), more_rates_(start.more_learning_rates), exponents_(start.exponent),
      first_is_given_(start.step == 0 && !start.mask.empty()), me_(communicator.rank()),
      ranks_(communicator.size()), d_(problem_.layout.size()), w_(setup.parameters), m_(at(d_), 0.0F),
      e_(at(d_), 0.0F), c_(at(d_), 0.0F), M_(at(d_), 0.0F), ghat_(at(d_), 0.0F), mask_(bytes_for(d_), 0),
      coming_(mask_), previous_mask_(mask_), waiting_(mask_), own_choice_(mask_) {
    problem::check(problem_);
    if (problem_.settings.k_rounding != problem::KRounding::floor ||
        problem_.settings.decay_order != problem::DecayOrder::first)
        throw Error("plain: k_rounding must be floor and decay_order first; the others are read from old "
                    "traces only");
    if (problem_.workers != ranks_ || ranges_.size() != at(ranks_) || w_.size() != at(d_))
        throw Error(
            "plain: give as many ranks and ranges as the problem has workers, and as many values as "
            "it has parameters");
    make_groups();
    compare_given(setup, start.step == 0);
    Index covered = 0;
    for (const problem::Range& range : ranges_) {
        if (range.begin != covered || range.end < range.begin)
            throw Error("plain: the ranges must ascend and cover every parameter");
        covered = range.end;
    }
    if (covered != d_)
        throw Error("plain: the ranges must end at the last parameter");
    if (start.step > 0 || !start.mask.empty())
        go_on(start);
    if (has(Bug::ranks_start_apart) && me_ > 0 && me_ == ranks_ - 1)
        w_[0] += 1.0F;
    // Blocks of ceil(d/P); the last is shorter if d does not divide by P.
    if (has(Bug::last_range_cut_off))
        for (problem::Range& range : ranges_)
            if (range.end == d_ && range.size() < (d_ + ranks_ - 1) / ranks_)
                range.end = range.begin;
}

/// If only the coming mask is given, the one before counts as full.
void PlainRank::go_on(const Start& start) {
    steps_ = start.step;
    m_ = start.moment;
    e_ = start.residual[at(me_)];
    coming_ = start.mask;
    waiting_ = start.used.empty() ? coming_ : start.used;
    mask_ = start.used.empty() ? full_mask() : start.used;
}

void PlainRank::begin_at(const properties::scape::InitialState& begun) {
    go_on({begun.step,
           begun.moment.empty() ? Floats(at(d_), 0.0F) : begun.moment,
           begun.residual,
           begun.mask,
           {},
           {},
           {}});
    given_state_ = number_of_state(begun);
}

// The gather's buffers end with this object.
PlainRank::~PlainRank() {
    try {
        join_mask();
    } catch (...) { // NOLINT(bugprone-empty-catch): the ranks have been told already
    }
}

PlainRank::Scalars PlainRank::scalars(Index t, double learning_rate, Index param_group) const {
    const problem::HyperParameters& settings = problem_.settings;
    Index exponent = has(Bug::correction_one_step_off) ? t + 1 : t;
    if (has(Bug::counter_not_saved))
        exponent = t - restored_at_;
    if (has(Bug::counter_per_tensor))
        exponent = t * static_cast<Index>(problem_.layout.tensors().size());
    if (has(Bug::step_in_8_bits))
        exponent = t % 256;
    if (has(Bug::step_in_16_bits))
        exponent = t % 65'536;
    Scalars s{};
    s.b1 = once(settings.beta1);
    s.a1 = once(1.0 - settings.beta1);
    s.b2 = once(settings.beta2);
    s.a2 = once(1.0 - settings.beta2);
    s.eps = once(settings.epsilon);
    s.lr = once(learning_rate);
    s.decay = once(1.0 - learning_rate * settings.weight_decay_of(param_group));
    s.inv1 = 1.0F;
    s.invs2 = 1.0F;
    if (settings.bias_correction != problem::BiasCorrection::none)
        s.inv1 = once(1.0 / (1.0 - power(settings.beta1, exponent)));
    if (settings.bias_correction == problem::BiasCorrection::adam && !has(Bug::second_correction_missing))
        s.invs2 = once(1.0 / std::sqrt(1.0 - power(settings.beta2, exponent)));
    return s;
}

double PlainRank::density_of_next(Index t) const {
    if (has(Bug::density_of_start))
        return density_.at(1);
    return density_.at(has(Bug::density_one_step_off) ? t : t + 1);
}

float PlainRank::multiply_add(float x, float y, float z) const {
    return has(Bug::fused_multiply_add) ? std::fma(x, y, z) : (x * y) + z;
}

float PlainRank::quotient(float x, float y) const {
    return has(Bug::reciprocal_for_division) ? x * (1.0F / y) : x / y;
}

float PlainRank::kept(float x) const {
    if (has(Bug::subnormals_flushed) && std::abs(x) < std::numeric_limits<float>::min())
        return std::copysign(0.0F, x);
    if (has(Bug::sign_of_zero_lost))
        return x + 0.0F; // -0 + 0 is +0
    return x;
}

void PlainRank::step(std::span<const float> gradient, double learning_rate) {
    ++asked_;
    if (!halted_.empty())
        throw distributed::scape::Halted("no step can be taken: " + halted_ +
                                         "; restore a state to continue");
    if (gradient.size() != at(d_))
        throw Error("gradient: " + std::to_string(gradient.size()) + " values given; the model has " +
                    std::to_string(d_));
    if (!std::isfinite(learning_rate))
        throw Error("the learning rate must be finite");
    if (has(Bug::zero_rate_skips) && learning_rate == 0.0) {
        ++steps_;
        return;
    }
    if (has(Bug::rate_of_first_step))
        learning_rate = first_rate_.value_or(learning_rate);
    first_rate_ = learning_rate;
    const Index t = steps_ + 1;
    const Scalars s = scalars(t, learning_rate);
    gradient = whole(gradient);
    compare_states_and_buckets();
    const bool local_before_check = has(Bug::refused_step_changes_residual) && t > 1;
    if (local_before_check) {
        join_mask();
        make_local(s, gradient);
        lost_.assign(at(d_), 0.0F); // what a mean loses is known after the exchange
        store_residual(s, gradient, next_mask());
    }

    // 1. Check.
    if (!has(Bug::overflow_before_gradient))
        check_whole(gradient);
    if (format_of(problem_.settings.payload) == problem::Payload::bf16 && t > 1 && !local_before_check) {
        join_mask();
        make_local(s, gradient);
        refuse_what_overflows(next_mask());
    }
    if (has(Bug::overflow_before_gradient))
        check_whole(gradient);
    residual_follows_buckets();
    halted_ = "step " + std::to_string(t) + " was interrupted";

    // 2. Local.
    join_mask();
    if (has(Bug::gradient_not_zeroed)) {
        accumulated_.resize(at(d_), 0.0F);
        for (Index i = 0; i < d_; ++i)
            accumulated_[at(i)] += gradient[at(i)];
        gradient = accumulated_;
    }
    if (!local_before_check)
        make_local(s, gradient);

    // 3. Next mask; S_t is the one made a step ago.
    if ((t == 1 && !first_is_given_) || has(Bug::mask_without_delay))
        bootstrap(density_.at(t), scored(s, gradient));
    else
        advance_mask();
    agree_on_scale(t);
    if (!has(Bug::score_after_reset) && !has(Bug::score_from_average))
        start_mask(density_of_next(t), scored(s, gradient));

    // 4. Exchange.
    exchange();
    if (has(Bug::score_from_average)) {
        for (Index i = 0; i < d_; ++i)
            if (test(mask_, i))
                c_[at(i)] = M_[at(i)]; // the reducer averages in place
        start_mask(density_of_next(t), c_);
    }

    // 5. Reconstruction.
    if (has(Bug::clip_before_reconstruction))
        clip_average();
    reconstruct(s);

    // 6. Residual.
    store_residual(s, gradient, mask_);
    if (has(Bug::score_after_reset))
        start_mask(density_of_next(t), e_);

    // 7. Clip. 8. Update.
    if (!has(Bug::clip_before_reconstruction))
        clip(s);
    for (std::size_t i = 0; i < problem_.layout.tensors().size(); ++i) {
        const Index group = problem_.layout.tensors()[i].param_group;
        update(group == 0 ? s : scalars(t, more_rates_.at(asked_ - 1).at(at(group) - 1), group),
               {problem_.layout.begin(i), problem_.layout.end(i)});
    }
    if (has(Bug::mask_buffer_reused))
        std::ranges::fill(outgoing_, std::uint8_t{0}); // cleared for the next step's bits
    steps_ = t;
    cut_.clear();
    if (!all_finite() && !has(Bug::infinity_not_noticed)) {
        halted_ = "after step " + std::to_string(t) + " a parameter or the moment is not finite";
        throw distributed::scape::Halted("halted: " + halted_ + "; restore a finite state to continue");
    }
    halted_.clear();
}

void PlainRank::refuse_on_all_ranks(std::span<const float> g) {
    struct Verdict {
        Index index;
        double value;
    };
    Verdict mine{-1, 0.0};
    for (Index i = d_ - 1; i >= 0; --i) {
        const float magnitude = std::abs(g[at(i)]);
        // Comparisons with a NaN are false.
        const bool good = has(Bug::nan_passed_on) ? !(magnitude > 0x1p56F) : magnitude <= 0x1p56F;
        if (!good)
            mine = {i, static_cast<double>(g[at(i)])};
    }
    const auto verdicts = distributed::gather_records(communicator_, mine);
    for (int rank = 0; rank < ranks_; ++rank) {
        if (has(Bug::nan_refused_on_one_rank) && rank != me_)
            continue;
        if (const Verdict& verdict = verdicts[at(rank)]; verdict.index >= 0)
            throw distributed::scape::RefusedStep(rank, verdict.index, static_cast<float>(verdict.value),
                                                  problem_.layout);
    }
}

void PlainRank::make_local(const Scalars& s, std::span<const float> g) {
    for (std::size_t i = 0; i < c_.size(); ++i) {
        const bool swapped = has(Bug::weights_swapped);
        const float gradient = has(Bug::divided_by_unused_scale) ? g[i] * 0x1p-16F : g[i];
        const float moment =
            swapped ? (s.a1 * m_[i]) + (s.b1 * gradient) : multiply_add(s.b1, m_[i], s.a1 * gradient);
        float residual = e_[i];
        if (has(Bug::residual_decayed))
            residual = s.b1 * residual;
        c_[i] = kept(has(Bug::residual_never_added) ? moment : moment + residual);
    }
}

/// Keeps what was not sent.
void PlainRank::store_residual(const Scalars& s, std::span<const float> g, const Bits& S) {
    for (Index i = 0; i < d_; ++i) {
        const float before = e_[at(i)];
        const float from_gradient = s.a1 * g[at(i)];
        float& e = e_[at(i)];
        e = c_[at(i)];
        if (has(Bug::residual_divided))
            e = e / static_cast<float>(ranks_);
        if (has(Bug::unselected_momentum_dropped))
            e = from_gradient + before;
        if (has(Bug::residual_counted_twice))
            e = ((s.b1 * m_[at(i)]) + from_gradient) + c_[at(i)];
        if ((test(S, i) && !has(Bug::residual_kept_where_sent)) || has(Bug::residual_cleared_everywhere))
            e = staying(i);
    }
}

void PlainRank::reconstruct(const Scalars& s) {
    for (Index i = 0; i < d_; ++i) {
        float& ghat = ghat_[at(i)];
        ghat = 0.0F;
        if (!test(mask_, i))
            continue;
        ghat = M_[at(i)] - (s.b1 * m_[at(i)]);
        if (!has(Bug::division_by_a1_missing))
            ghat = quotient(ghat, s.a1);
        if (has(Bug::residual_taken_for_gradient))
            ghat = M_[at(i)];
    }
}

void PlainRank::clip(const Scalars& s) {
    if (!(problem_.settings.clip_norm > 0.0) || has(Bug::clip_result_dropped))
        return;
    const std::vector<problem::Range> all{{0, d_}};
    for (const problem::Range& range : has(Bug::clip_by_owner) ? ranges_ : all) {
        const float factor = clip_factor(ghat_, range);
        for (Index i = range.begin; i < range.end; ++i) {
            if (!test(mask_, i))
                continue;
            ghat_[at(i)] = ghat_[at(i)] * factor;
            if (!has(Bug::clipped_gradient_unclipped_moment))
                M_[at(i)] = kept(multiply_add(s.b1, m_[at(i)], s.a1 * ghat_[at(i)]));
        }
    }
}

/// Only for a bug: clips what the reducer returns, before gradients are reconstructed from it.
void PlainRank::clip_average() {
    if (!(problem_.settings.clip_norm > 0.0))
        return;
    const float factor = clip_factor(M_, {0, d_});
    for (float& M : M_)
        M = M * factor;
}

void PlainRank::update(const Scalars& s, const problem::Range& range) {
    const bool momentum = problem_.settings.bias_correction == problem::BiasCorrection::momentum;
    bool decays = !(has(Bug::one_rank_does_not_decay) && me_ > 0 && me_ == ranks_ - 1);
    if (has(Bug::decay_only_while_full))
        decays = mask_ == full_mask();
    const float decay = decays ? s.decay : 1.0F;
    for (Index i = range.begin; i < range.end; ++i) {
        float& w = w_[at(i)];
        float& m = m_[at(i)];
        if (!test(mask_, i)) {
            if (!has(Bug::decay_only_on_mask))
                w = kept(w * decay);
            if (!has(Bug::moment_kept_off_mask))
                m = 0.0F;
            continue;
        }
        const float M = M_[at(i)];
        const float ghat = ghat_[at(i)];
        float before = has(Bug::new_moment_in_denominator) ? M : m;
        if (momentum && !has(Bug::second_correction_missing))
            before = before * s.inv1;
        const float v = multiply_add(s.b2, before * before, s.a2 * (ghat * ghat));
        const float root = has(Bug::epsilon_inside_root) ? std::sqrt(v + s.eps) * s.invs2
                                                         : (std::sqrt(v) * s.invs2) + s.eps;
        const float u = (M * s.inv1) / root;
        if (has(Bug::decay_after_update))
            w = (w - (s.lr * u)) * decay;
        else if (has(Bug::decay_twice_on_mask))
            w = ((w * decay) * decay) - (s.lr * u);
        else
            w = kept(multiply_add(w, decay, has(Bug::update_with_wrong_sign) ? s.lr * u : -(s.lr * u)));
        m = has(Bug::moment_in_bf16) ? in_bf16(M) : M;
    }
}

bool PlainRank::all_finite() const {
    const auto finite = [](float value) { return std::isfinite(value); };
    return std::ranges::all_of(w_, finite) && std::ranges::all_of(m_, finite);
}

properties::scape::ObservedState PlainRank::view() {
    return {steps_, w_, m_, e_, mask_};
}

std::unique_ptr<properties::scape::RankUnderTest> make_plain(const properties::scape::Setup& setup,
                                                             distributed::Communicator& communicator,
                                                             Bug bug, const Start& start) {
    return std::make_unique<PlainRank>(setup, communicator, bug, start);
}

} // namespace truestep::properties::scape::planted
