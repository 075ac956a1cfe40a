// Chooses the steps and segments of a SCAPE trace on which known bugs are tried.
#include "replay.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <truestep/gate/hypotheses.hpp>
#include <truestep/verify/scape/verify_trace.hpp>

#include "plain_rank.hpp"

namespace truestep::properties::scape::planted {

namespace {

using trace::Window;
using verify::scape::kind_of;
using verify::scape::Result;
using verify::scape::TraceHead;
using verify::scape::TraceReader;

/// The mask that the step after `begin` uses, or should use.
std::optional<Bits> mask_after(const TraceReader& trace, Index begin, const Window& window) {
    if (begin > 0)
        if (auto made = trace.mask(kind_of(Result::next_mask), begin, window))
            return made;
    return trace.mask(kind_of(Result::mask), begin + 1, window);
}

/// The index in the trace of a coordinate of the whole model.
Index held_index(const problem::Layout& held, Index whole) {
    Index first = 0;
    Index behind = held.size();
    while (behind - first > 1) {
        const Index middle = first + (behind - first) / 2;
        (held.place(middle) <= whole ? first : behind) = middle;
    }
    return first;
}

/// Whether the norm of the whole has to be given: a part clips by it but cannot compute it.
bool asks_for_norm(const TraceHead& head) {
    return head.problem.settings.clip_norm > 0.0 && head.norm.empty();
}

class Choice {
  public:
    Choice(const TraceReader& trace, const gate::FirstDifference& parted)
        : trace_(trace), head_(trace.head()), step_(parted.step),
          end_(std::min(parted.step + 1, head_.steps())), size_(head_.problem.layout.size()),
          at_(held_index(head_.problem.layout, parted.index.value_or(0))) {}

    [[nodiscard]] ReplayChoice choose() const {
        ReplayChoice choice;
        std::optional<Replay> replay = whole();
        if (!replay) {
            replay = of_segments();
            // Most bugs show in a part of a segment, and sooner.
            if (const auto part = of_a_part(); part && (!replay || replay->window.size() > few()))
                choice.replays.push_back(*part);
        }
        if (replay)
            choice.replays.push_back(*replay);
        if (replay && replay->begin < step_ - 1 && begins_at(step_ - 1)) {
            choice.replays.push_back(*replay);
            choice.replays.back().begin = step_ - 1;
        }
        if (choice.replays.empty())
            choice.why = too_large();
        return choice;
    }

  private:
    static constexpr Index most_history = 2; ///< steps before the one that goes wrong
    /// One segment may take seconds; neighbours are added only while they take none.
    static constexpr Index share_with_neighbours = 8;

    [[nodiscard]] Index most(Index begin) const {
        return gate::most_parameters_to_try((step_ - begin) * head_.problem.workers);
    }

    [[nodiscard]] std::string too_large() const {
        return gate::too_large_to_try(size_, step_ * head_.problem.workers) +
               ", or the state after every step";
    }

    [[nodiscard]] bool has_mask_after(Index begin) const {
        return mask_after(trace_, begin, {0, std::min<Index>(8, size_)}).has_value();
    }

    [[nodiscard]] bool begins_at(Index begin) const {
        return begin == 0 || (!unknown_scale() && trace_.states_recorded() && has_mask_after(begin));
    }

    /// The scale of a first step is made in the step before it, and in all segments.
    [[nodiscard]] bool unknown_scale() const {
        return format_of(head_.problem.settings.payload) == problem::Payload::e5m2 &&
               head_.exponent.empty();
    }

    [[nodiscard]] Index with_history() const { return std::max<Index>(0, step_ - 1 - most_history); }

    [[nodiscard]] std::optional<Replay> whole() const {
        if (size_ <= most(0))
            return Replay{0, end_, {0, size_}, true, false};
        for (Index begin = with_history(); begin < step_; ++begin)
            if (size_ <= most(begin) && begins_at(begin))
                return Replay{begin, end_, {0, size_}, true, false};
        return std::nullopt;
    }

    [[nodiscard]] std::vector<problem::Segment>::const_iterator segment() const {
        return std::ranges::find_if(head_.problem.segments, [&](const auto& one) { return at_ < one.end; });
    }

    /// So many values of one step take no time.
    [[nodiscard]] Index few() const { return most(step_ - 1) / share_with_neighbours; }

    [[nodiscard]] std::optional<Replay> of_segments() const {
        if (unknown_scale())
            return std::nullopt;
        const Index last = step_ - 1;
        for (Index begin = asks_for_norm(head_) ? last : with_history(); begin <= last; ++begin)
            if (begins_at(begin) && segment()->size() <= most(begin))
                return Replay{begin, end_, with_neighbours(most(begin) / share_with_neighbours), false,
                              false};
        return std::nullopt;
    }

    [[nodiscard]] std::optional<Replay> of_a_part() const {
        const Index last = step_ - 1;
        const Index size = std::min(few(), segment()->size());
        if (size == 0 || unknown_scale() || !begins_at(last) || !has_mask_after(last))
            return std::nullopt;
        const Index begin = std::clamp(at_ - size / 2, segment()->begin, segment()->end - size);
        return Replay{last, step_, {begin, begin + size}, false, true};
    }

    [[nodiscard]] Window with_neighbours(Index most_values) const {
        const auto one = segment();
        Window window{one->begin, one->end};
        const auto& all = head_.problem.segments;
        for (auto next = one + 1; next != all.end() && next->end - window.begin <= most_values; ++next)
            window.end = next->end;
        for (auto last = one; last != all.begin() && window.end - (last - 1)->begin <= most_values; --last)
            window.begin = (last - 1)->begin;
        return window;
    }

    const TraceReader& trace_;
    const TraceHead& head_;
    Index step_;
    Index end_;
    Index size_;
    Index at_;
};

/// A window may begin or end within a segment.
problem::Problem problem_of(const problem::Problem& all, const Replay& replay) {
    if (replay.whole)
        return all;
    const Window& window = replay.window;
    problem::Problem part = all;
    part.layout = all.layout.part({{window.begin, window.end}});
    part.segments.clear();
    for (const problem::Segment& segment : all.segments) {
        const Index begin = std::max(segment.begin, window.begin);
        const Index end = std::min(segment.end, window.end);
        if (begin < end)
            part.segments.push_back(
                {begin - window.begin, end - window.begin, segment.owner, segment.always_dense});
    }
    return part;
}

std::optional<std::vector<problem::Range>> ranges_of(const problem::Problem& problem) {
    std::vector<problem::Range> ranges(static_cast<std::size_t>(problem.workers));
    Index begin = 0;
    int owner = 0;
    for (const problem::Segment& segment : problem.segments) {
        if (segment.owner < owner)
            return std::nullopt;
        for (; owner < segment.owner; begin = segment.begin)
            ranges[static_cast<std::size_t>(owner++)] = {begin, segment.begin};
    }
    for (; owner < problem.workers; begin = problem.layout.size())
        ranges[static_cast<std::size_t>(owner++)] = {begin, problem.layout.size()};
    return ranges;
}

Floats parameters_of(const TraceReader& trace, const Replay& replay) {
    if (replay.begin > 0)
        return trace.values(kind_of(Result::parameters), replay.begin, 0, replay.window).value();
    const Floats& all = trace.head().initial_parameters;
    return {all.begin() + replay.window.begin, all.begin() + replay.window.end};
}

template <class Value>
std::vector<Value> from(const std::vector<Value>& series, Index begin) {
    return {series.begin() + std::min(begin, static_cast<Index>(series.size())), series.end()};
}

std::vector<double> norms(const TraceReader& trace, const Replay& replay) {
    const TraceHead& head = trace.head();
    if (replay.whole || !asks_for_norm(head))
        return from(head.norm, replay.begin);
    // Steps after the one that goes wrong show only the mask that they begin with.
    const double norm = verify::scape::norm_before_clipping(trace, replay.begin + 1);
    std::vector<double> of_each(static_cast<std::size_t>(replay.end - replay.begin), norm);
    return of_each;
}

/// The exponents of all steps if the whole is not available to derive them; of the first step if the one
/// before is missing.
std::vector<int> exponents(const TraceHead& head, const Replay& replay) {
    std::vector<int> all = from(head.exponent, replay.begin);
    if (!head.sampled && replay.whole)
        all.resize(std::min<std::size_t>(all.size(), head.extent.begin + replay.begin > 0 ? 1 : 0));
    return all;
}

} // namespace

ReplayChoice choose_replays(const TraceReader& trace, const gate::FirstDifference& parted) {
    return Choice(trace, parted).choose();
}

std::optional<Scenario> scenario_of(const TraceReader& trace, const Replay& replay) {
    const TraceHead& head = trace.head();
    problem::Problem problem = problem_of(head.problem, replay);
    auto ranges = ranges_of(problem);
    if (!ranges)
        return std::nullopt;
    Scenario scenario{
        {std::move(problem), std::move(*ranges), head.schedule(), parameters_of(trace, replay)}, {}};
    for (Index t = replay.begin + 1; t <= replay.end; ++t) {
        Action action;
        action.learning_rate = head.rates(t).of(0);
        for (int rank = 0; rank < head.problem.workers; ++rank)
            action.gradients.push_back(trace.input(verify::scape::gradient_kind, t, rank, replay.window));
        scenario.actions.push_back(std::move(action));
    }
    return scenario;
}

Start start_of(const TraceReader& trace, const Replay& replay) {
    const TraceHead& head = trace.head();
    const Window& window = replay.window;
    Start start;
    start.step = head.extent.begin + replay.begin;
    start.norm = norms(trace, replay);
    start.exponent = exponents(head, replay);
    for (Index t = replay.begin + 1; t <= replay.end; ++t) {
        auto& rates = start.more_learning_rates.emplace_back();
        for (Index group = 1; group < head.whole().layout.param_groups(); ++group)
            rates.push_back(head.rates(t).of(group));
    }
    if (replay.begin > 0) {
        start.moment = trace.values(kind_of(Result::first_moment), replay.begin, 0, window).value();
        for (int rank = 0; rank < head.problem.workers; ++rank)
            start.residual.push_back(
                trace.values(kind_of(Result::residual), replay.begin, rank, window).value());
        start.mask = mask_after(trace, replay.begin, window).value();
        start.used = trace.mask(kind_of(Result::mask), replay.begin, window).value_or(Bits());
    } else if (start.step > 0) {
        verify::scape::InitialState held = trace.initial_state(window);
        start.moment = std::move(held.first_moment);
        start.residual = std::move(held.residual);
        start.mask = std::move(held.mask);
    } else if (replay.in_segment) {
        const Floats zeros(static_cast<std::size_t>(window.size()), 0.0F);
        start.moment = zeros;
        start.residual.assign(static_cast<std::size_t>(head.problem.workers), zeros);
        start.mask = mask_after(trace, 0, window).value();
    }
    return start;
}

std::string told(const TraceReader& trace, const Replay& replay) {
    const problem::Layout& layout = trace.head().problem.layout;
    std::string text =
        replay.begin > 0 ? "from the recorded state before step " + std::to_string(replay.begin + 1) : "";
    if (!replay.whole)
        text += (text.empty() ? "on " : ", on ") + std::to_string(replay.window.size()) + " of " +
                std::to_string(layout.size()) + " values, the first of them " +
                layout.describe(replay.window.begin) +
                (replay.in_segment ? ": a part of one segment, in which no choice of a mask is tried" : "");
    return text.empty() ? "" : "tried " + text;
}

} // namespace truestep::properties::scape::planted
