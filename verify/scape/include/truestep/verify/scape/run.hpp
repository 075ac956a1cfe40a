#pragma once

#include <numeric>
#include <optional>
#include <utility>
#include <variant>

#include <truestep/problem/density.hpp>
#include <truestep/reference/scape/adams.hpp>
#include <truestep/reference/scape/scape.hpp>
#include <truestep/verify/scape/results.hpp>

namespace truestep::verify::scape {

/// The reference with one interface for all algorithms. AdamS has no coming mask and no residuals;
/// its masks are full.
template <class T>
class Run {
  public:
    using State = reference::scape::ScapeState<T>;

    Run(const problem::Problem& problem, const problem::DensitySchedule& density, Vector<T> parameters)
        : size_(problem.layout.size()),
          optimizer_(problem.algorithm == problem::Algorithm::adams
                         ? Optimizer(reference::scape::AdamS<T>(problem, std::move(parameters)))
                         : Optimizer(reference::scape::Scape<T>(problem, density, std::move(parameters)))) {
    }

    using Norm = typename reference::scape::ClipReal<T>::type;
    using Exponent = std::optional<typename reference::scape::Rounding<T>::Exponent>;

    /// `norm` is that of the whole, if this is a part; without clipping it does not matter.
    StepResults<T> step(const PerRank<T>& gradients, const problem::LearningRates& rates,
                        const std::optional<Norm>& norm = {}) {
        StepResults<T> results;
        if (auto* dense = std::get_if<reference::scape::AdamS<T>>(&optimizer_)) {
            dense->step(gradients, rates);
            results.mask = everywhere();
            results.next_mask = results.mask;
        } else {
            auto step = std::get<reference::scape::Scape<T>>(optimizer_).step(gradients, rates, norm);
            results.exchanged = spread(step.exchanged, step.S);
            results.reconstructed = spread(step.ghat, step.S);
            results.local = std::move(step.c);
            results.mask = std::move(step.S);
            results.next_mask = std::move(step.next);
            exponent_ = step.E;
        }
        add_state(results);
        return results;
    }

    /// E of section 21 of the last step; none if nothing is scaled.
    [[nodiscard]] const Exponent& exponent() const { return exponent_; }

    /// Sets the scale of the next step, whatever the steps before have left.
    void scale_by(int E) {
        if (auto* scape = std::get_if<reference::scape::Scape<T>>(&optimizer_))
            scape->state.exponent = reference::scape::Rounding<T>::exactly(E);
    }

    /// The mean gradient before clipping, packed, on this mask if one is given. Throws what the
    /// step would; changes nothing. AdamS, which does not clip, has none.
    [[nodiscard]] Vector<T> mean_gradient(const PerRank<T>& gradients, double learning_rate,
                                          const std::optional<Coordinates>& mask) const {
        if (const auto* dense = std::get_if<reference::scape::AdamS<T>>(&optimizer_)) {
            dense->check(gradients);
            return {};
        }
        return std::get<reference::scape::Scape<T>>(optimizer_)
            .mean_gradient(gradients, learning_rate, mask);
    }

    /// The results of a refused step: the unchanged state, with the mask that it would have used
    /// still to come.
    [[nodiscard]] StepResults<T> unchanged() const {
        StepResults<T> results;
        results.mask = std::holds_alternative<reference::scape::AdamS<T>>(optimizer_)
                           ? everywhere()
                           : state().S.value_or(Coordinates{});
        results.next_mask = results.mask;
        add_state(results);
        return results;
    }

    [[nodiscard]] State state() const {
        if (const auto* dense = std::get_if<reference::scape::AdamS<T>>(&optimizer_))
            return {dense->state.step, dense->state.w, dense->state.m, std::nullopt, {}};
        return std::get<reference::scape::Scape<T>>(optimizer_).state;
    }

    void restore(State state) {
        if (auto* dense = std::get_if<reference::scape::AdamS<T>>(&optimizer_))
            dense->state = {state.step, std::move(state.w), std::move(state.m)};
        else
            std::get<reference::scape::Scape<T>>(optimizer_).state = std::move(state);
    }

  private:
    using Optimizer = std::variant<reference::scape::AdamS<T>, reference::scape::Scape<T>>;

    void add_state(StepResults<T>& results) const {
        State now = state();
        results.residual = std::move(now.e);
        results.first_moment = std::move(now.m);
        results.parameters = std::move(now.w);
    }

    [[nodiscard]] Coordinates everywhere() const {
        Coordinates all(static_cast<std::size_t>(size_));
        std::iota(all.begin(), all.end(), Index{0});
        return all;
    }

    [[nodiscard]] Vector<T> spread(const Vector<T>& packed, const Coordinates& S) const {
        Vector<T> full = Vector<T>::Zero(size_);
        full(S) = packed;
        return full;
    }

    Index size_;
    Optimizer optimizer_;
    Exponent exponent_;
};

} // namespace truestep::verify::scape
