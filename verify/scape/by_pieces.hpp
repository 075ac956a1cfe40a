// Checks a trace piece by piece: all steps of each piece, or all pieces of each step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <truestep/reference/scape/folds.hpp>

#include "trace_check.hpp"

namespace truestep::verify::scape {

/// Checks independent pieces: memory holds as many of them as there are threads.
template <class T>
std::vector<StepFindings> check_by_pieces(const TraceReader& trace, ReferenceStart from,
                                          const VerifyOptions& options,
                                          const std::vector<trace::Window>& pieces) {
    const Index steps = trace.head().steps();
    std::vector<StepFindings> all;
    in_order(
        pieces.size(), options.threads,
        [&](std::size_t i) {
            const TracePiece piece(trace, pieces[i]);
            TraceCheck<T> check(piece, from);
            std::vector<StepFindings> found;
            for (Index step = 1; step <= steps; ++step)
                found.push_back(check.next_step());
            return found;
        },
        [&](std::size_t i, std::vector<StepFindings> found) {
            if (i == 0)
                all = std::move(found);
            else
                for (std::size_t step = 0; step < all.size(); ++step)
                    append(all[step], std::move(found[step]), pieces[i].begin);
            // The number of steps that would take the same time.
            options.progress(
                std::max<Index>(1, steps * static_cast<Index>(i + 1) / static_cast<Index>(pieces.size())),
                steps);
        });
    return all;
}

/// Checks pieces that depend on each other in each step, by the norm that clips it or by its
/// refusal: a first pass gathers what all need to know, a second takes the step. Between two passes
/// a piece keeps its state only if the trace does not hold it.
template <class T>
class StepByStep {
  public:
    StepByStep(const TraceReader& trace, ReferenceStart from, const VerifyOptions& options,
               std::vector<trace::Window> pieces)
        : trace_(trace), options_(options), windows_(std::move(pieces)) {
        for (const trace::Window& window : windows_) {
            pieces_.push_back(std::make_unique<TracePiece>(trace, window));
            checks_.push_back(std::make_unique<TraceCheck<T>>(*pieces_.back(), from));
            checks_.back()->sleep();
        }
    }

    std::vector<StepFindings> run() {
        std::vector<StepFindings> all;
        for (Index step = 1; step <= trace_.head().steps(); ++step) {
            options_.progress(step, trace_.head().steps());
            all.push_back(take(look()));
        }
        return all;
    }

  private:
    /// The contribution of one piece before the step.
    struct PieceContribution {
        Vector<T> gradient;
        std::optional<reference::scape::RefusedStep> refused;
    };

    OfAllPieces<T> look() {
        reference::scape::NormOfParts<typename Run<T>::Norm> norm;
        OfAllPieces<T> of_all;
        in_order(
            checks_.size(), options_.threads,
            [&](std::size_t i) {
                PieceContribution look;
                try {
                    look.gradient = checks_[i]->next_gradient();
                } catch (const reference::scape::RefusedStep& refused) {
                    look.refused = refused.within(trace_.head().problem.layout, windows_[i].begin);
                } catch (const reference::scape::Halted&) {
                    throw NotByPieces();
                }
                checks_[i]->sleep();
                return look;
            },
            [&](std::size_t, const PieceContribution& look) {
                norm.add(look.gradient);
                if (look.refused && (!of_all.refused || comes_before(*look.refused, *of_all.refused)))
                    of_all.refused = look.refused;
            });
        const problem::HyperParameters& settings = trace_.head().problem.settings;
        if (settings.clip_norm > 0.0 && trace_.head().norm.empty())
            of_all.norm = norm.norm(settings.norm);
        return of_all;
    }

    /// In the order in which a step checks them.
    static bool comes_before(const reference::scape::RefusedStep& a,
                             const reference::scape::RefusedStep& b) {
        return std::tuple(a.payload, a.rank, a.index) < std::tuple(b.payload, b.rank, b.index);
    }

    StepFindings take(const OfAllPieces<T>& of_all) {
        StepFindings all;
        in_order(
            checks_.size(), options_.threads,
            [&](std::size_t i) {
                StepFindings found = checks_[i]->next_step(of_all);
                checks_[i]->sleep();
                return found;
            },
            [&](std::size_t i, StepFindings found) {
                if (i == 0)
                    all = std::move(found);
                else
                    append(all, std::move(found), windows_[i].begin);
            });
        return all;
    }

    const TraceReader& trace_;
    const VerifyOptions& options_;
    std::vector<trace::Window> windows_;
    std::vector<std::unique_ptr<TracePiece>> pieces_;
    std::vector<std::unique_ptr<TraceCheck<T>>> checks_;
};

} // namespace truestep::verify::scape
