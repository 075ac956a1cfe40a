#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <truestep/problem/problem.hpp>
#include <truestep/reference/bf16.hpp>
#include <truestep/verify/scape/record.hpp>
#include <truestep/verify/scape/trace.hpp>

/// An independent SCAPE that stores everything in bf16: section 4 in loops, with honest habits and
/// with known bugs. It shares only the scalar with the reference.
namespace truestep::verify::scape::support {

using reference::Bf16;

enum class KnownBug {
    none,
    no_bias_correction,
    decay_into_gradient, ///< like L2 regularization
    decay_grows,         ///< w / decay
    beta2_for_beta1,
    residual_dropped,
    residual_kept, ///< also on the mask
    mean_not_divided,
    mean_of_one_rank,
    second_moment_of_new, ///< M^2 in place of m^2
    complement_in_bf16,   ///< 1 - bf16(beta2), which is 0 for 0.999
    least_selected,       ///< of |c|
    clip_left_out,
    moment_kept_off_mask,
};

/// Formulations that are equal in real numbers.
struct Habits {
    enum class Sum { in_order, backwards, in_pairs, divided_first, by_reciprocal };
    enum class Local { plain, residual_first, towards_gradient };

    Sum sum = Sum::in_order;
    Local local = Local::plain;
    bool fused = false;         ///< a product and a sum are rounded once
    bool reciprocals = false;   ///< multiplied instead of divided, in ghat and u
    bool one_decrement = false; ///< w - lr*(u + wd*w)
    bool squares_apart = false; ///< (b2*m)*m
    bool step_size = false;     ///< lr/C1 is one scalar
    bool in_fp32 = false;       ///< computed in fp32; stored values are rounded
    KnownBug known_bug = KnownBug::none;

    [[nodiscard]] bool makes(KnownBug one) const { return known_bug == one; }
};

/// T is the scalar of its computations, Bf16 or float. Stored values are bf16.
template <class T>
class Stranger {
  public:
    Stranger(const RecordOptions& options, Habits habits)
        : problem_(options.problem), density_(options.density), habits_(habits),
          m_(Vector<float>::Zero(problem_.layout.size())),
          e_(static_cast<std::size_t>(problem_.workers), m_) {}

    void begin(const std::vector<float>& parameters) {
        w_ = Eigen::Map<const Vector<float>>(parameters.data(), problem_.layout.size());
    }

    StepResults<float> step(const PerRank<float>& g, double learning_rate) {
        ++t_;
        set_scalars(learning_rate);
        StepResults<float> results;
        results.local = local(g);
        results.next_mask = select(results.local, t_ + 1);
        results.mask = coming_ ? *coming_ : select(results.local, t_);
        const Coordinates& S = results.mask;
        const Vector<float> before = m_;
        const Vector<float> M = mean(results.local, S);
        Vector<float> ghat = Vector<float>::Zero(M.size());
        for (const Index i : S)
            ghat[i] = stored(divided(minus_product(of(M[i]), b1_, of(before[i])), a1_));
        results.exchanged = M;
        results.reconstructed = ghat;
        keep_residuals(results.local, S);
        const Vector<float> moment = clipped(M, ghat, before, S);
        update(moment, before, ghat, S);
        for (Index i = 0; i < m_.size(); ++i)
            m_[i] = habits_.makes(KnownBug::moment_kept_off_mask) && !holds(S, i) ? before[i] : moment[i];
        results.residual = e_;
        results.first_moment = m_;
        results.parameters = w_;
        coming_ = results.next_mask;
        return results;
    }

  private:
    static float stored(const T& value) { return static_cast<float>(Bf16(static_cast<double>(value))); }
    static T of(float value) { return T(static_cast<double>(value)); }
    static double wide(const T& value) { return static_cast<double>(value); }
    static bool holds(const Coordinates& S, Index i) { return std::binary_search(S.begin(), S.end(), i); }

    T product_plus(const T& a, const T& b, const T& c) const {
        return habits_.fused ? T(wide(a) * wide(b) + wide(c)) : (a * b) + c;
    }
    T minus_product(const T& c, const T& a, const T& b) const {
        return habits_.fused ? T(wide(c) - wide(a) * wide(b)) : c - (a * b);
    }
    T divided(const T& a, const T& b) const { return habits_.reciprocals ? a * (T(1.0) / b) : a / b; }

    void set_scalars(double learning_rate) {
        const problem::HyperParameters& settings = problem_.settings;
        b1_ = T(habits_.makes(KnownBug::beta2_for_beta1) ? settings.beta2 : settings.beta1);
        a1_ = T(1.0 - settings.beta1);
        b2_ = T(settings.beta2);
        a2_ = habits_.makes(KnownBug::complement_in_bf16) ? T(1.0) - b2_ : T(1.0 - settings.beta2);
        eps_ = T(settings.epsilon);
        wd_ = T(settings.weight_decay);
        lr_ = T(learning_rate);
        decay_ = T(1.0 - learning_rate * settings.weight_decay);
        const bool corrects = !habits_.makes(KnownBug::no_bias_correction) &&
                              settings.bias_correction == problem::BiasCorrection::adam;
        const double c1 = corrects ? 1.0 - std::pow(settings.beta1, static_cast<double>(t_)) : 1.0;
        const double c2 = corrects ? 1.0 - std::pow(settings.beta2, static_cast<double>(t_)) : 1.0;
        inv1_ = T(1.0 / c1);
        invs2_ = T(1.0 / std::sqrt(c2));
        lr_inv1_ = T(learning_rate / c1);
    }

    PerRank<float> local(const PerRank<float>& gradients) const {
        PerRank<float> all;
        for (std::size_t rank = 0; rank < gradients.size(); ++rank) {
            Vector<float> c(m_.size());
            for (Index i = 0; i < c.size(); ++i) {
                T g = of(gradients[rank][i]);
                if (habits_.makes(KnownBug::decay_into_gradient))
                    g = product_plus(wd_, of(w_[i]), g);
                c[i] = stored(local(of(m_[i]), g, of(e_[rank][i])));
            }
            all.push_back(std::move(c));
        }
        return all;
    }

    T local(const T& m, const T& g, const T& e) const {
        switch (habits_.local) {
        case Habits::Local::residual_first:
            return product_plus(b1_, m, product_plus(a1_, g, e));
        case Habits::Local::towards_gradient:
            if (!habits_.makes(KnownBug::beta2_for_beta1))
                return product_plus(a1_, g - m, m) + e;
            [[fallthrough]];
        case Habits::Local::plain:
            break;
        }
        return product_plus(a1_, g, b1_ * m) + e;
    }

    Coordinates select(const PerRank<float>& c, Index t) const {
        Coordinates all;
        for (const problem::Segment& segment : problem_.segments) {
            const Vector<float>& owners = c[static_cast<std::size_t>(segment.owner)];
            Coordinates order(static_cast<std::size_t>(segment.size()));
            std::iota(order.begin(), order.end(), segment.begin);
            std::ranges::stable_sort(order, [&](Index a, Index b) {
                return habits_.makes(KnownBug::least_selected) ? std::abs(owners[a]) < std::abs(owners[b])
                                                               : std::abs(owners[a]) > std::abs(owners[b]);
            });
            order.resize(static_cast<std::size_t>(
                selected_count(segment, density_.at(t), problem_.settings.k_rounding)));
            std::ranges::sort(order);
            all.insert(all.end(), order.begin(), order.end());
        }
        return all;
    }

    Vector<float> mean(const PerRank<float>& c, const Coordinates& S) const {
        Vector<float> M = Vector<float>::Zero(m_.size());
        for (const Index i : S) {
            std::vector<T> values;
            for (const Vector<float>& of_rank : c)
                values.push_back(of(of_rank[i]));
            M[i] = stored(mean(std::move(values)));
        }
        return M;
    }

    T mean(std::vector<T> values) const {
        const T count = T(static_cast<double>(values.size()));
        if (habits_.makes(KnownBug::mean_of_one_rank))
            return values.front();
        if (habits_.sum == Habits::Sum::divided_first)
            for (T& value : values)
                value = value / count;
        if (habits_.sum == Habits::Sum::backwards)
            std::ranges::reverse(values);
        while (habits_.sum == Habits::Sum::in_pairs && values.size() > 1) {
            std::vector<T> sums;
            for (std::size_t i = 0; i + 1 < values.size(); i += 2)
                sums.push_back(values[i] + values[i + 1]);
            if (values.size() % 2 == 1)
                sums.push_back(values.back());
            values = std::move(sums);
        }
        T sum = values.front();
        for (std::size_t i = 1; i < values.size(); ++i)
            sum = sum + values[i];
        if (habits_.makes(KnownBug::mean_not_divided) || habits_.sum == Habits::Sum::divided_first)
            return sum;
        return habits_.sum == Habits::Sum::by_reciprocal ? sum * (T(1.0) / count) : sum / count;
    }

    void keep_residuals(const PerRank<float>& c, const Coordinates& S) {
        for (std::size_t rank = 0; rank < e_.size(); ++rank) {
            e_[rank] = c[rank];
            if (habits_.makes(KnownBug::residual_dropped))
                e_[rank].setZero();
            else if (!habits_.makes(KnownBug::residual_kept))
                for (const Index i : S)
                    e_[rank][i] = 0.0F;
        }
    }

    /// Returns M after clipping; changes ghat.
    Vector<float> clipped(const Vector<float>& M, Vector<float>& ghat, const Vector<float>& before,
                          const Coordinates& S) const {
        if (problem_.settings.clip_norm <= 0.0 || habits_.makes(KnownBug::clip_left_out))
            return M;
        double squares = 0.0;
        for (const Index i : S)
            squares += static_cast<double>(ghat[i]) * static_cast<double>(ghat[i]);
        const T s = T(std::min(1.0, problem_.settings.clip_norm / (std::sqrt(squares) + 1e-6)));
        Vector<float> moment = Vector<float>::Zero(M.size());
        for (const Index i : S) {
            ghat[i] = stored(of(ghat[i]) * s);
            moment[i] = stored(product_plus(a1_, of(ghat[i]), b1_ * of(before[i])));
        }
        return moment;
    }

    void update(const Vector<float>& M, const Vector<float>& before, const Vector<float>& ghat,
                const Coordinates& S) {
        for (Index i = 0; i < w_.size(); ++i) {
            const T w = of(w_[i]);
            const bool selected = holds(S, i);
            T u = T(0.0);
            if (selected)
                u = direction(of(M[i]),
                              of(habits_.makes(KnownBug::second_moment_of_new) ? M[i] : before[i]),
                              of(ghat[i]));
            const T& rate = habits_.step_size ? lr_inv1_ : lr_;
            if (habits_.one_decrement && !habits_.step_size && !habits_.makes(KnownBug::decay_grows))
                w_[i] = stored(minus_product(w, lr_, product_plus(wd_, w, u)));
            else if (habits_.makes(KnownBug::decay_into_gradient))
                w_[i] = stored(minus_product(w, rate, u));
            else if (habits_.makes(KnownBug::decay_grows))
                w_[i] = stored(minus_product(w / decay_, rate, u));
            else
                w_[i] = stored(minus_product(w * decay_, rate, u));
        }
    }

    T direction(const T& M, const T& m, const T& g) const {
        using std::sqrt;
        const T v = habits_.squares_apart ? product_plus(b2_ * m, m, (a2_ * g) * g)
                                          : product_plus(b2_, m * m, a2_ * (g * g));
        const T size = product_plus(sqrt(v), invs2_, eps_);
        return divided(habits_.step_size ? M : M * inv1_, size);
    }

    const problem::Problem& problem_;
    const problem::DensitySchedule& density_;
    Habits habits_;
    Index t_ = 0;
    Vector<float> w_;
    Vector<float> m_;
    PerRank<float> e_;
    std::optional<Coordinates> coming_;
    T b1_{}, a1_{}, b2_{}, a2_{}, eps_{}, wd_{}, lr_{}, decay_{}, inv1_{}, invs2_{}, lr_inv1_{};
};

/// Records a run of the stranger, on bf16 gradients.
template <class T>
void record_stranger_in(const std::filesystem::path& path, const RecordOptions& options, Habits habits) {
    const auto bf16 = [](float value) { return static_cast<float>(Bf16(static_cast<double>(value))); };
    const Index size = options.problem.layout.size();
    TraceHead head{options.source, options.problem, {}, {}, {}};
    head.learning_rate.assign(static_cast<std::size_t>(options.steps), options.learning_rate);
    for (Index step = 1; step <= options.steps + 1; ++step)
        head.density.push_back(options.density.at(step));
    for (Index index = 0; index < size; ++index)
        head.initial_parameters.push_back(bf16(initial_parameter(options.data, options.seed, index)));
    Stranger<T> stranger(options, habits);
    stranger.begin(head.initial_parameters);
    TraceWriter writer(path, head, options.intermediates);
    for (Index step = 1; step <= options.steps; ++step) {
        PerRank<float> gradients;
        for (int rank = 0; rank < options.problem.workers; ++rank) {
            gradients.emplace_back(size);
            for (Index index = 0; index < size; ++index)
                gradients.back()[index] =
                    bf16(gradient_value(options.data, options.seed, rank, step, index));
        }
        writer.write_step(gradients, stranger.step(gradients, options.learning_rate));
    }
    writer.finish();
}

inline void record_stranger(const std::filesystem::path& path, const RecordOptions& options,
                            Habits habits) {
    if (habits.in_fp32)
        record_stranger_in<float>(path, options, habits);
    else
        record_stranger_in<Bf16>(path, options, habits);
}

} // namespace truestep::verify::scape::support
