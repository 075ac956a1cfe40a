#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <truestep/verify/compare_with_reference.hpp>
#include <truestep/verify/scape/run.hpp>
#include <truestep/verify/scape/trace.hpp>
#include <truestep/verify/scape/yardstick.hpp>

/// A trace, a piece of its coordinates at a time: SCAPE's step treats each segment independently,
/// so that memory need not grow with the model.
namespace truestep::verify::scape {

/// Thrown for facts that one piece cannot show: then the trace is checked as a whole.
class NotByPieces : public std::runtime_error {
  public:
    NotByPieces() : std::runtime_error("the pieces of this trace hang together") {}
};

/// Whole segments, [begin, end), of a trace.
class TracePiece {
  public:
    TracePiece(const TraceReader& trace, trace::Window window)
        : trace_(&trace), window_(window),
          problem_(part(trace.head().problem, {{window.begin, window.end}})) {}

    [[nodiscard]] bool whole() const { return window_.size() == trace_->head().problem.layout.size(); }
    /// The problem of the piece, with coordinates from 0 on.
    [[nodiscard]] const problem::Problem& problem() const { return problem_; }
    [[nodiscard]] const TraceHead& head() const { return trace_->head(); }
    [[nodiscard]] std::vector<float> initial_parameters() const {
        const auto& all = head().initial_parameters;
        return {all.begin() + window_.begin, all.begin() + window_.end};
    }

    [[nodiscard]] InitialState initial_state() const { return trace_->initial_state(window_); }

    [[nodiscard]] std::vector<float> gradient(Index step, int rank) const {
        return trace_->input(gradient_kind, step, rank, window_);
    }
    [[nodiscard]] auto values(const trace::Kind& kind, Index step, int rank) const {
        return trace_->values(kind, step, rank, window_);
    }
    [[nodiscard]] auto mask(Result result, Index step) const {
        return trace_->mask(kind_of(result), step, window_);
    }
    [[nodiscard]] std::optional<Coordinates> coordinates(Result result, Index step) const {
        const auto bits = mask(result, step);
        return bits ? std::optional(to_coordinates(*bits, window_.size())) : std::nullopt;
    }
    /// The mask in flight before the first step, if steps had been taken.
    [[nodiscard]] Coordinates initial_mask() const {
        return to_coordinates(initial_state().mask, window_.size());
    }
    [[nodiscard]] auto replicated_values(const trace::Kind& kind, Index step) const {
        return trace_->replicated_values(kind, step, window_);
    }
    [[nodiscard]] auto replicated_mask(const trace::Kind& kind, Index step) const {
        return trace_->replicated_mask(kind, step, window_);
    }

  private:
    const TraceReader* trace_;
    trace::Window window_;
    problem::Problem problem_;
};

/// The recorded state before a step. The count of steps and the coming mask do not change.
template <class T>
void take_recorded(const TracePiece& trace, Index step, typename Run<T>::State& state) {
    if (step == 1 && trace.head().extent.begin == 0) {
        state.w = to_vector<T>(trace.initial_parameters());
        state.m = Vector<T>::Zero(state.w.size());
        state.e.assign(state.e.size(), state.m);
        return;
    }
    InitialState held;
    if (step == 1)
        held = trace.initial_state();
    const auto recorded = [&](Result result, int rank) {
        return trace.values(kind_of(result), step - 1, rank).value();
    };
    state.w = to_vector<T>(step == 1 ? trace.initial_parameters() : recorded(Result::parameters, 0));
    state.m = to_vector<T>(step == 1 ? held.first_moment : recorded(Result::first_moment, 0));
    for (std::size_t rank = 0; rank < state.e.size(); ++rank)
        state.e[rank] = to_vector<T>(step == 1 ? held.residual[rank]
                                               : recorded(Result::residual, static_cast<int>(rank)));
}

template <class T>
[[nodiscard]] PerRank<T> gradients_of(const TracePiece& trace, Index step) {
    PerRank<T> gradients;
    for (int rank = 0; rank < trace.problem().workers; ++rank)
        gradients.push_back(to_vector<T>(trace.gradient(step, rank)));
    return gradients;
}

/// The recorded norm. An implementation that clips in fp32, or in bf16, has rounded it once more.
template <class T>
[[nodiscard]] typename Run<T>::Norm norm_as_recorded(double norm) {
    if constexpr (std::is_same_v<T, float>)
        return norm;
    else
        return typename Run<T>::Norm(T(norm, norm * T::roundoff));
}

/// Pieces of at least this many coordinates, except for the last. One piece if they depend on each
/// other from the start: fingerprints cover everything, and so do a mask's bits beyond the end.
[[nodiscard]] std::vector<trace::Window> pieces_of(const TraceReader& trace, Index least);

/// Calls take(i, make(i)) for each i below `count`: several threads make, and results are taken one
/// by one in i's order, so the number of threads does not show. The first exception ends it, and is
/// thrown.
template <class Make, class Take>
void in_order(std::size_t count, int threads, const Make& make, const Take& take) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    std::mutex mutex; // for the variables below
    std::exception_ptr failure;
    std::map<std::size_t, std::invoke_result_t<Make, std::size_t>> waiting; // for earlier results
    std::size_t taken = 0;

    const auto work = [&] {
        try {
            for (std::size_t i = next++; i < count && !failed; i = next++) {
                auto made = make(i);
                const std::lock_guard lock(mutex);
                waiting.emplace(i, std::move(made));
                for (auto first = waiting.begin(); first != waiting.end() && first->first == taken;
                     first = waiting.erase(first), ++taken)
                    take(taken, std::move(first->second));
            }
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (!failed.exchange(true))
                failure = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> all;
        for (std::size_t i = 0; i < std::min(static_cast<std::size_t>(std::max(1, threads)), count); ++i)
            all.emplace_back(work);
    }
    if (failure)
        std::rethrow_exception(failure);
}

} // namespace truestep::verify::scape
