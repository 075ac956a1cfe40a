#include <scape/verify/verify_trace.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <scape/problem/error.hpp>

#include "findings.hpp"
#include "teller.hpp"
#include "trace_check.hpp"
#include "trace_piece.hpp"
#include "watch.hpp"

namespace scape::verify {

namespace {

std::string count_of(std::size_t count, const std::string& thing) {
    return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string describe(const TraceHead& head) {
    const problem::Problem& problem = head.whole();
    return std::string(name(problem.algorithm)) + ", " +
           count_of(static_cast<std::size_t>(problem.workers), "worker") + ", " +
           count_of(static_cast<std::size_t>(head.steps()), "step") +
           (head.extent.begin > 0 ? " after step " + std::to_string(head.extent.begin) : "") + ", " +
           count_of(static_cast<std::size_t>(problem.layout.size()), "parameter") + " in " +
           count_of(problem.layout.tensors().size(), "tensor") + ", " +
           count_of(problem.segments.size(), "segment") + ", bias correction " +
           std::string(name(problem.settings.bias_correction));
}

/// What a verdict on a part of a run does not say.
void tell_extent(const TraceHead& head, std::vector<std::string>& notes) {
    const problem::Problem& whole = head.whole();
    if (head.sampled)
        notes.push_back("sampled: " + std::to_string(head.problem.layout.size()) + " of " +
                        count_of(static_cast<std::size_t>(whole.layout.size()), "coordinate") + ", " +
                        std::to_string(head.extent.sample.size()) + " of " +
                        count_of(whole.segments.size(), "segment") + " (" +
                        describe(head.extent.sample, whole) +
                        "): what goes wrong outside of them does not show");
    if (!head.norm.empty())
        notes.emplace_back("the norm that clips is the recorded one: that of the whole gradient cannot be "
                           "taken from a sample");
    if (head.extent.begin > 0)
        notes.push_back(
            "the trace begins after step " + std::to_string(head.extent.begin) +
            " of the run: the state at that point is taken as it is recorded, and step 1 here is "
            "step " +
            std::to_string(head.extent.begin + 1));
}

/// Of a sample: every place as it is in the whole model.
void tell_places(const TraceHead& head, Divergence& divergence) {
    Comparison& comparison = divergence.comparison;
    const problem::Layout& held = head.problem.layout;
    const auto place = [&](Index& index) { // a mask may have bits beyond the last coordinate
        index = index < held.size() ? held.place(index) : head.whole().layout.size() + index - held.size();
    };
    for (auto* pairs : {&comparison.before, &comparison.first, &comparison.last})
        for (Pair& pair : *pairs)
            place(pair.index);
    if (comparison.greatest)
        place(comparison.greatest->index);
    if (divergence.index)
        place(*divergence.index);
}

void refuse_impossible(const TraceReader& trace, const VerifyOptions& options) {
    const problem::Problem& problem = trace.head().problem;
    if (options.level.kind == LevelKind::exact &&
        problem.settings.decay_order == problem::DecayOrder::together)
        throw Error(
            trace.path().string() +
            ": level EXACT cannot be had: section 5 fixes no arithmetic for decay_order 'together'; use "
            "--level rel");
    if (options.from == From::recorded && !trace.states_recorded())
        throw Error(
            trace.path().string() +
            ": --from recorded cannot be had: not every step holds parameters, first_moment and residual "
            "of every rank; use --from start");
}

template <class T>
std::vector<StepFindings> check_whole(const TraceReader& trace, From from, const VerifyOptions& options) {
    const TracePiece whole(trace, {0, trace.head().problem.layout.size()});
    TraceCheck<T> check(whole, from);
    std::vector<StepFindings> found;
    for (Index step = 1; step <= trace.head().steps(); ++step) {
        options.progress(step, trace.head().steps());
        found.push_back(check.next_step());
        if (!found.back().halted.empty())
            break;
    }
    return found;
}

/// Several threads, each of which takes the next piece and checks all steps of it. What comes of them is
/// put together in the pieces' order, so that the threads do not show.
template <class T>
class CheckByPieces {
  public:
    CheckByPieces(const TraceReader& trace, From from, const VerifyOptions& options,
                  std::vector<trace::Window> pieces)
        : trace_(trace), from_(from), options_(options), pieces_(std::move(pieces)) {}

    std::vector<StepFindings> run() {
        const auto most = static_cast<std::size_t>(std::max(1, options_.threads));
        {
            std::vector<std::jthread> threads;
            for (std::size_t i = 0; i < std::min(most, pieces_.size()); ++i)
                threads.emplace_back([this] { work(); });
        }
        if (failure_)
            std::rethrow_exception(failure_);
        return std::move(all_);
    }

  private:
    void work() {
        try {
            for (std::size_t i = next_++; i < pieces_.size() && !failed_; i = next_++) {
                const TracePiece piece(trace_, pieces_[i]);
                TraceCheck<T> check(piece, from_);
                std::vector<StepFindings> found;
                for (Index step = 1; step <= trace_.head().steps() && !failed_; ++step)
                    found.push_back(check.next_step());
                if (!failed_)
                    done(i, std::move(found));
            }
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (!failed_.exchange(true))
                failure_ = std::current_exception();
        }
    }

    void done(std::size_t piece, std::vector<StepFindings> found) {
        const std::lock_guard lock(mutex_);
        waiting_.emplace(piece, std::move(found));
        const Index steps = trace_.head().steps();
        for (auto first = waiting_.begin(); first != waiting_.end() && first->first == merged_;
             first = waiting_.erase(first), ++merged_) {
            if (merged_ == 0)
                all_ = std::move(first->second);
            else
                for (std::size_t step = 0; step < all_.size(); ++step)
                    append(all_[step], std::move(first->second[step]), pieces_[merged_].begin);
        }
        // As many steps as would take the same time.
        options_.progress(
            std::max<Index>(1, steps * static_cast<Index>(merged_) / static_cast<Index>(pieces_.size())),
            steps);
    }

    const TraceReader& trace_;
    From from_;
    const VerifyOptions& options_;
    std::vector<trace::Window> pieces_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> failed_{false};
    std::mutex mutex_; ///< of what follows
    std::exception_ptr failure_;
    std::map<std::size_t, std::vector<StepFindings>> waiting_; ///< for pieces before them
    std::size_t merged_ = 0;
    std::vector<StepFindings> all_;
};

template <class T>
std::vector<StepFindings> check(const TraceReader& trace, From from, const VerifyOptions& options) {
    const std::vector<trace::Window> pieces = pieces_of(trace, options.piece);
    if (pieces.size() > 1) {
        try {
            return CheckByPieces<T>(trace, from, options, pieces).run();
        } catch (const NotByPieces&) {
            // A refused step, a run that breaks down, ranks that are not alike.
        }
    }
    return check_whole<T>(trace, from, options);
}

} // namespace

TraceVerdict verify_trace(const std::filesystem::path& path, const VerifyOptions& options) {
    const TraceReader trace(path);
    refuse_impossible(trace, options);
    TraceVerdict verdict{path.string(),
                         trace.head().source,
                         describe(trace.head()),
                         trace.head().whole().layout,
                         trace.head().steps(),
                         options.level,
                         options.from.value_or(trace.states_recorded() ? From::recorded : From::start),
                         {},
                         {},
                         std::nullopt,
                         Status::untested,
                         {}};
    Teller teller(trace.head().problem);
    std::optional<Watch> watch;
    if (options.look)
        watch.emplace(trace);
    Index step = 0;
    for (const StepFindings& found : options.level.kind == LevelKind::exact
                                         ? check<float>(trace, verdict.from, options)
                                         : check<Bounded>(trace, verdict.from, options)) {
        teller.tell(found);
        if (watch)
            watch->see(++step, found);
    }
    verdict.rows = teller.rows();
    verdict.first = teller.first();
    if (verdict.first && trace.head().sampled)
        tell_places(trace.head(), *verdict.first);
    if (watch)
        verdict.seen = watch->seen();
    verdict.status = overall(verdict.rows, verdict.first.has_value());
    tell_extent(trace.head(), verdict.notes);
    add_notes(
        verdict, trace,
        "their gradients cancel to within rounding, so that no finite bound holds for the division by "
        "their size");
    return verdict;
}

} // namespace scape::verify
