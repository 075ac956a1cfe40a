#include "trace_piece.hpp"

#include <algorithm>
#include <cstddef>

namespace truestep::verify {

namespace {

/// Of a mask whose bits go on beyond the last coordinate: they are told where all of it is compared.
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

} // namespace

std::vector<trace::Window> pieces_of(const TraceReader& trace, Index least) {
    const problem::Problem& problem = trace.head().problem;
    // The scale of e5m2 is of the whole model, and where it is not said all of it has to tell.
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

} // namespace truestep::verify
