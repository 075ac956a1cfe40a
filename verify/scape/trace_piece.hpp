#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <truestep/verify/trace.hpp>

/// A trace, a piece of its coordinates at a time: SCAPE's step is the same for each segment, whatever the
/// others hold, so that memory need not grow with the model.
namespace truestep::verify {

/// What does not show in one piece: then the trace is checked as a whole.
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
    /// With coordinates from 0 on.
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
    [[nodiscard]] auto mask(const trace::Kind& kind, Index step) const {
        return trace_->mask(kind, step, window_);
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

/// Pieces of at least so many coordinates, but for the last. One where the pieces hang together from the
/// first: fingerprints are of all, and so is what a mask holds beyond the end.
[[nodiscard]] std::vector<trace::Window> pieces_of(const TraceReader& trace, Index least);

} // namespace truestep::verify
