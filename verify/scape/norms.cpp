#include "norms.hpp"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <truestep/reference/folds.hpp>
#include <truestep/verify/beside.hpp>
#include <truestep/verify/verify_trace.hpp>

#include "in_order.hpp"
#include "trace_piece.hpp"

namespace truestep::verify {

namespace {

void begin_before(Run<float>& run, const TracePiece& piece, Index step) {
    const Index begin = piece.head().extent.begin;
    const Index size = piece.problem().layout.size();
    auto state = run.state();
    state.step = begin + step - 1;
    std::optional<std::vector<std::uint8_t>> mask;
    if (step > 1) {
        const auto recorded = [&](Result result, int rank) {
            return to_vector<float>(piece.values(kind_of(result), step - 1, rank).value());
        };
        state.w = recorded(Result::parameters, 0);
        state.m = recorded(Result::first_moment, 0);
        for (std::size_t rank = 0; rank < state.e.size(); ++rank)
            state.e[rank] = recorded(Result::residual, static_cast<int>(rank));
        mask = piece.mask(kind_of(Result::next_mask), step - 1);
        if (!mask)
            mask = piece.mask(kind_of(Result::mask), step);
    } else {
        const InitialState held = piece.initial_state();
        state.m = to_vector<float>(held.first_moment);
        for (std::size_t rank = 0; rank < state.e.size(); ++rank)
            state.e[rank] = to_vector<float>(held.residual[rank]);
        mask = held.mask;
    }
    state.S = to_coordinates(mask.value(), size);
    run.restore(std::move(state));
}

} // namespace

double norm_before_clipping(const TraceReader& trace, Index step) {
    const TraceHead& head = trace.head();
    const auto at = static_cast<std::size_t>(step - 1);
    if (!head.norm.empty())
        return head.norm[at];
    const std::vector<trace::Window> windows = pieces_of(trace, Index{1} << 16);
    reference::NormOfParts<Run<float>::Norm> norm;
    in_order(
        windows.size(), static_cast<int>(std::max(1U, std::thread::hardware_concurrency())),
        [&](std::size_t i) {
            const TracePiece piece(trace, windows[i]);
            Run<float> run(piece.problem(), head.schedule(), to_vector<float>(piece.initial_parameters()));
            if (head.extent.begin + step > 1)
                begin_before(run, piece, step);
            if (!head.exponent.empty())
                run.scale_by(head.exponent[at]);
            PerRank<float> gradients;
            for (int rank = 0; rank < head.problem.workers; ++rank)
                gradients.push_back(to_vector<float>(piece.gradient(step, rank)));
            return run.mean_gradient(gradients, head.rates(step).of(0), std::nullopt);
        },
        [&](std::size_t, const Vector<float>& gradient) { norm.add(gradient); });
    return norm.norm(head.problem.settings.norm);
}

} // namespace truestep::verify
