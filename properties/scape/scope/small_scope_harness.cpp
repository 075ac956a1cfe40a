// Runs batches of tiny problems on an implementation and the reference, and shrinks mismatches.
#include "small_scope_harness.hpp"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

namespace truestep::properties::scape::scope {

void Tally::found(Mismatch mismatch) {
    const std::lock_guard lock(mutex_);
    if (!mismatch_)
        mismatch_ = std::move(mismatch);
    over_ = true;
}

void SmallScopeHarness::judge_whole(const TinyProblem& problem, Tally& tally) const {
    tally.add(1);
    if (!judge(scenario_of(problem)))
        return;
    const TinyProblem small = smallest(*this, problem);
    const auto found = judge(scenario_of(small));
    tally.found({found ? found->text : "it fails now and then", text(small), ""});
}

TinyProblem smallest(const SmallScopeHarness& lab, TinyProblem problem) {
    const auto fails = [&](const TinyProblem& candidate) {
        return lab.judge(scenario_of(candidate)).has_value();
    };
    const auto try_zero = [&](TinyProblem& from, float& value) {
        for (const float simpler : {0.0F, 1.0F}) {
            const float kept = value;
            if (kept == simpler)
                return;
            value = simpler;
            if (fails(from))
                return;
            value = kept;
        }
    };
    // First all values of a step at once, since a single value may be what breaks a tie.
    for (std::size_t step = 0; step < steps; ++step) {
        TinyProblem candidate = problem;
        for (std::vector<float>& g : candidate.gradients[step])
            std::fill(g.begin(), g.end(), 0.0F);
        if (fails(candidate))
            problem = std::move(candidate);
    }
    for (Gradients& of_step : problem.gradients)
        for (std::vector<float>& g : of_step)
            for (float& value : g)
                try_zero(problem, value);
    for (float& value : problem.parameters)
        try_zero(problem, value);
    return problem;
}

Batch::Batch(Shape shape, const SmallScopeHarness& lab, Tally& tally)
    : shape_(std::move(shape)), lab_(lab), tally_(tally),
      // So many that all ranks' vectors stay in a cache.
      most_(static_cast<std::size_t>(12'288 / shape_.segment)),
      by_range_(static_cast<std::size_t>(shape_.workers)) {}

void Batch::add(const Piece& piece) {
    const int range = shape_.turned ? (piece.owner + shape_.workers - 1) % shape_.workers : piece.owner;
    by_range_[static_cast<std::size_t>(range)].push_back(piece);
    if (++count_ == most_)
        flush();
}

Scenario Batch::scenario() const {
    const auto n = static_cast<Index>(shape_.segment);
    const auto ranks = static_cast<std::size_t>(shape_.workers);
    std::vector<problem::Segment> segments;
    std::vector<problem::Range> ranges;
    std::vector<float> parameters;
    std::array<Gradients, steps> gradients;
    for (Gradients& of_step : gradients)
        of_step.resize(ranks);
    Index at = 0;
    for (const std::vector<Piece>& pieces : by_range_) {
        ranges.push_back({at, at + n * static_cast<Index>(pieces.size())});
        for (const Piece& piece : pieces) {
            segments.push_back({at, at + n, piece.owner, false});
            at += n;
            parameters.insert(parameters.end(), piece.parameters.begin(), piece.parameters.begin() + n);
            for (std::size_t step = 0; step < steps; ++step)
                for (std::size_t rank = 0; rank < ranks; ++rank) {
                    const auto& g = piece.gradients[step][rank];
                    gradients[step][rank].insert(gradients[step][rank].end(), g.begin(), g.begin() + n);
                }
        }
    }
    properties::scape::Case settings = shape_.settings;
    settings.tensors = {{"a", at, false}};
    settings.workers = shape_.workers;
    auto whole = properties::scape::problem_of(settings);
    whole.segments = std::move(segments);
    return two_steps(std::move(whole), std::move(ranges), shape_.densities, std::move(parameters),
                     std::move(gradients));
}

void Batch::flush() {
    if (count_ == 0 || tally_.over())
        return;
    tally_.add(count_);
    if (const auto found = lab_.judge(scenario()))
        tally_.found(mismatch(*found));
    for (std::vector<Piece>& pieces : by_range_)
        pieces.clear();
    count_ = 0;
}

/// The segment as its own problem: the only tensor, or next to one of zeros that gives it to its owner.
Mismatch Batch::mismatch(const Difference& found) const {
    if (found.coordinate < 0)
        return {found.text, "", "in a batch of " + std::to_string(count_) + " segments"};
    auto number = static_cast<std::size_t>(found.coordinate / shape_.segment);
    std::size_t range = 0;
    for (; number >= by_range_[range].size(); ++range)
        number -= by_range_[range].size();
    const Piece& piece = by_range_[range][number];
    const auto n = static_cast<std::size_t>(shape_.segment);

    TinyProblem alone;
    alone.settings = shape_.settings;
    alone.settings.workers = shape_.workers;
    alone.settings.partition = problem::PartitionRule::by_tensor;
    alone.settings.tensors = {{"a", shape_.segment, false}};
    alone.densities = shape_.densities;
    const problem::Tensor others{"others", 4 * shape_.segment, false};
    const bool after = piece.owner == 0 && shape_.workers > 1;
    const bool before = piece.owner == 2;
    if (after)
        alone.settings.tensors.push_back(others);
    if (before)
        alone.settings.tensors.insert(alone.settings.tensors.begin(), others);
    const auto padded = [&](const std::array<float, 3>& own) {
        std::vector<float> result(before ? 4 * n : 0, 0.0F);
        result.insert(result.end(), own.begin(), own.begin() + static_cast<std::ptrdiff_t>(n));
        result.resize(result.size() + (after ? 4 * n : 0), 0.0F);
        return result;
    };
    alone.parameters = padded(piece.parameters);
    for (std::size_t step = 0; step < steps; ++step)
        for (std::size_t rank = 0; rank < static_cast<std::size_t>(shape_.workers); ++rank)
            alone.gradients[step].push_back(padded(piece.gradients[step][rank]));
    if (!lab_.judge(scenario_of(alone)))
        return {found.text, "",
                "in a batch of " + std::to_string(count_) + " segments, and not alone as " + text(alone)};
    alone = smallest(lab_, std::move(alone));
    return {lab_.judge(scenario_of(alone)).value_or(found).text, text(alone), ""};
}

void run_tasks(const MakeHarness& make, int threads, const std::vector<Task>& tasks, Tally& tally) {
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    std::exception_ptr failure;
    const auto work = [&] {
        try {
            const SmallScopeHarness lab = make();
            for (std::size_t number = next++; number < tasks.size() && !tally.over(); number = next++)
                tasks[number](lab, tally);
        } catch (...) {
            const std::lock_guard lock(mutex);
            failure = std::current_exception();
        }
    };
    std::vector<std::thread> others;
    for (int thread = 1; thread < threads; ++thread)
        others.emplace_back(work);
    work();
    for (std::thread& other : others)
        other.join();
    if (failure)
        std::rethrow_exception(failure);
}

} // namespace truestep::properties::scape::scope
