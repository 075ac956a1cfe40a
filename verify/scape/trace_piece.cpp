// Cuts a SCAPE trace into pieces of whole segments that can be checked independently.
#include "trace_piece.hpp"

#include <algorithm>
#include <cstddef>

#include <truestep/reference/scape/folds.hpp>
#include <truestep/verify/scape/verify_trace.hpp>

namespace truestep::verify::scape {

namespace {

/// Whether a mask has bits beyond the last coordinate, which only a comparison of the whole
/// reports.
bool has_stray_bits(const TraceReader& trace) {
    const Index size = trace.head().problem.layout.size();
    const Index begin = (size - 1) / 8 * 8;
    const auto stray = [&](const std::vector<std::uint8_t>& last) {
        return (last.front() >> static_cast<unsigned>(size - begin)) != 0;
    };
    for (Index step = 1; step <= trace.head().steps(); ++step)
        for (const Result result : {Result::mask, Result::next_mask}) {
            const auto held = trace.replicated_mask(kind_of(result), step, trace::Window{begin, size});
            if ((held.shared && stray(*held.shared)) || std::ranges::any_of(held.copies, stray))
                return true;
        }
    return false;
}

void begin_before(Run<float>& run, const TracePiece& piece, Index step) {
    auto state = run.state();
    state.step = piece.head().extent.begin + step - 1;
    take_recorded<float>(piece, step, state);
    state.S = step == 1 ? piece.initial_mask() : piece.coordinates(Result::next_mask, step - 1);
    if (!state.S)
        state.S = piece.coordinates(Result::mask, step).value();
    run.restore(std::move(state));
}

} // namespace

std::vector<trace::Window> pieces_of(const TraceReader& trace, Index least) {
    const problem::Problem& problem = trace.head().problem;
    // The scale of e5m2 belongs to the whole model, and if it is not recorded, the whole model is
    // needed.
    if ((problem::format_of(problem.settings.payload) == problem::Payload::e5m2 &&
         trace.head().exponent.empty()) ||
        trace.replica_counts().fingerprints > 0 || problem.layout.size() <= least || has_stray_bits(trace))
        return {{0, problem.layout.size()}};
    std::vector<trace::Window> pieces;
    Index begin = 0;
    for (const problem::Segment& segment : problem.segments)
        if (segment.end - begin >= least || segment.end == problem.layout.size()) {
            pieces.push_back({begin, segment.end});
            begin = segment.end;
        }
    return pieces;
}

double norm_before_clipping(const TraceReader& trace, Index step) {
    const TraceHead& head = trace.head();
    if (const auto recorded = head.norm_at(step))
        return *recorded;
    const std::vector<trace::Window> windows = pieces_of(trace, Index{1} << 16);
    reference::scape::NormOfParts<Run<float>::Norm> norm;
    in_order(
        windows.size(), static_cast<int>(std::max(1U, std::thread::hardware_concurrency())),
        [&](std::size_t i) {
            const TracePiece piece(trace, windows[i]);
            Run<float> run(piece.problem(), head.schedule(), to_vector<float>(piece.initial_parameters()));
            if (head.extent.begin + step > 1)
                begin_before(run, piece, step);
            if (const auto E = head.exponent_at(step))
                run.scale_by(*E);
            return run.mean_gradient(gradients_of<float>(piece, step), head.rates(step).of(0),
                                     std::nullopt);
        },
        [&](std::size_t, const Vector<float>& gradient) { norm.add(gradient); });
    return norm.norm(head.problem.settings.norm);
}

} // namespace truestep::verify::scape
