// Compares one trace with the reference, step by step. T is float for EXACT, Bounded for REL,
// BoundedBf16 for BF16.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <truestep/reference/dense/reference.hpp>
#include <truestep/trace/fingerprint.hpp>
#include <truestep/verify/compare_with_reference.hpp>
#include <truestep/verify/dense/judgement.hpp>
#include <truestep/verify/dense/traces.hpp>
#include <truestep/verify/verdict_builder.hpp>

namespace truestep::verify::dense {

template <class T>
class TraceCheck {
  public:
    /// `problem` need not be the trace's own: another rule is tried so. Results other than these are
    /// neither compared nor followed.
    TraceCheck(const TraceReader& trace, const Problem& problem, const std::vector<Result>& results,
               verify::VerdictBuilder& builder)
        : trace_(trace), builder_(builder), reference_(problem, vector(trace.head().parameters)),
          results_(results) {
        const Head& head = trace.head();
        reference_.state.step = head.config.begin;
        if (!head.first_moment.empty())
            reference_.state.m = vector(head.first_moment);
        if (!head.second_moment.empty())
            reference_.state.v = vector(head.second_moment);
    }

    /// Returns whether there can be a further step.
    bool check(Index step) {
        step_ = step;
        builder_.begin_step(step);
        ++builder_.verdict.rows.front().compared;
        before_ = reference_.state;
        judged_.clear();
        notes_.clear();
        refused_ = false;
        try {
            made_ = reference_.step(gradients(), trace_.head().rates_of(step));
        } catch (const reference::scape::RefusedStep& refused) {
            refused_ = true;
            const Values<T> none = Values<T>::Zero(reference_.layout().size());
            made_ = {none, none, none};
            check_refused(refused);
        } catch (const reference::scape::Halted& halted) {
            builder_.add_wrong("update", "parameters", Divergence::all_ranks,
                               std::string("the reference stops here: ") + halted.what());
            return false;
        }
        if (!refused_)
            for (const Result which : results_)
                for (Finding& finding : findings(which)) {
                    const auto note = notes_.find(which);
                    if (finding.note.empty() && note != notes_.end())
                        finding.note = note->second;
                    builder_.add(result(which).kind.name, finding);
                }
        if (builder_.from_recorded())
            follow();
        return true;
    }

  private:
    using Divergence = verify::Divergence;
    using Finding = verify::Finding;
    using Comparison = verify::Comparison;
    static constexpr bool exact = std::is_same_v<T, float>;

    static Values<T> vector(const std::vector<float>& values) { return verify::to_vector<T>(values); }

    [[nodiscard]] const Problem& problem() const { return reference_.problem(); }

    [[nodiscard]] Gradients<T> gradients() const {
        Gradients<T> all;
        for (int rank = 0; rank < problem().ranks; ++rank) {
            all.emplace_back();
            for (Index micro = 1; micro <= problem().micro_batches[static_cast<std::size_t>(rank)]; ++micro)
                all.back().push_back(vector(trace_.input(gradient_kind(micro), step_, rank)));
        }
        return all;
    }

    /// The reference's own value of a result.
    [[nodiscard]] Values<T> value(Result which) const {
        switch (which) {
        case Result::mean:
            return made_.M;
        case Result::clipped:
            return made_.ghat;
        case Result::first_moment:
            return reference_.state.m;
        case Result::second_moment:
            return reference_.state.v;
        case Result::orthogonalized:
            return made_.O;
        case Result::parameters:
        case Result::copies:
            break;
        }
        return reference_.state.w;
    }

    [[nodiscard]] std::optional<std::vector<float>> recorded(Result which) const {
        if (std::ranges::find(results_, which) == results_.end())
            return std::nullopt;
        return trace_.values(result(which).kind, step_, 0);
    }

    /// All that the trace holds of a result at this step, compared.
    std::vector<Finding> findings(Result which) {
        const trace::Kind& kind = result(which).kind;
        std::vector<Finding> found;
        const Index size = reference_.layout().size();
        const auto compare = [&](const std::vector<float>& actual) { return compared(which, actual); };
        if (!trace::is_replicated(kind)) {
            if (const auto actual = trace_.values(kind, step_, 0))
                found.push_back({Divergence::all_ranks, compare(*actual), {}});
        } else {
            std::optional<verify::ReferenceFingerprint> own;
            if constexpr (exact) {
                const Values<float> mine =
                    which == Result::copies ? copies_of(reference_.state.w) : value(which);
                const std::span<const float> values(mine.data(), static_cast<std::size_t>(mine.size()));
                own = {trace::fingerprint(values), (mine != 0.0F).any()};
            }
            found = verify::judge(trace_.replicated_values(kind, step_), size, own, compare);
        }
        // Only coordinates whose rule has such a value can prove anything.
        for (Finding& finding : found)
            if (!finding.eligible)
                finding.eligible = std::min(eligible(which), finding.comparison.compared);
        return found;
    }

    [[nodiscard]] Index eligible(Result which) const {
        Index count = 0;
        for (const problem::Tensor& tensor : reference_.layout().tensors()) {
            const Group& group = problem().groups[static_cast<std::size_t>(tensor.param_group)];
            const bool has = which == Result::first_moment     ? has_first_moment(group)
                             : which == Result::second_moment  ? is_adam(group.rule)
                             : which == Result::orthogonalized ? group.rule == Rule::muon
                                                               : true;
            count += has ? tensor.size : 0;
        }
        return count;
    }

    Comparison compared(Result which, const std::vector<float>& actual) {
        if (which == Result::copies)
            return compared_copies(actual);
        if constexpr (!exact)
            if (!refused_ && (which == Result::orthogonalized || which == Result::parameters))
                return compared_matrices(which, actual);
        return verify::compare_with(value(which), actual);
    }

    /// The copies are those of the recorded masters where there are such, to the bit at every level.
    Comparison compared_copies(const std::vector<float>& actual) const {
        const auto masters = recorded(Result::parameters);
        if (masters)
            return verify::compare_with(copies_of(verify::to_vector<float>(*masters)), actual);
        if constexpr (exact)
            return verify::compare_with(copies_of(reference_.state.w), actual);
        else
            return verify::compare_with(Values<T>(reference_.state.w.unaryExpr([](const T& w) {
                                            const double limit = verify::rel_slack * w.error();
                                            const double nearest = reference::nearest_bf16(w.value());
                                            const double up =
                                                reference::nearest_bf16(w.value() + limit) - nearest;
                                            const double down =
                                                nearest - reference::nearest_bf16(w.value() - limit);
                                            return T(nearest, std::max(up, down));
                                        })),
                                        actual);
    }

    /// Muon's matrices are judged as such; all other coordinates one by one.
    Comparison compared_matrices(Result which, const std::vector<float>& actual) {
        Values<T> expected = value(which);
        const auto held = which == Result::parameters ? recorded(Result::orthogonalized) : std::nullopt;
        std::vector<double> centres = verify::centres_of(expected);
        std::vector<double> limits = verify::limits_of(expected);
        double share = 0.0;
        for (std::size_t tensor = 0; tensor < problem().tensors.size(); ++tensor) {
            const Index begin = reference_.layout().begin(tensor);
            const Index size = reference_.layout().end(tensor) - begin;
            if (group_of_tensor(tensor).rule != Rule::muon)
                continue;
            const auto at = [&](auto& values) { return values.begin() + begin; };
            if (held) { // judged before
                const Values<T> w = updated(tensor, verify::to_vector<T>({at(*held), at(*held) + size}));
                std::ranges::copy(verify::centres_of(w), at(centres));
                std::ranges::copy(verify::limits_of(w), at(limits));
                continue;
            }
            const Judgement& judgement = judged(tensor);
            Values<T> O(size);
            for (Index i = 0; i < size; ++i)
                O[i] = T(judgement.O.data()[i], 0.0);
            Matrix<double> difference(judgement.O.rows(), judgement.O.cols());
            double factor = 1.0;
            double more = 0.0;
            if (which == Result::parameters) {
                O = updated(tensor, O);
                factor = scaled_rate(tensor);
                for (const T& one : O)
                    more += one.error() * one.error();
            }
            for (Index i = 0; i < size; ++i)
                difference.data()[i] =
                    static_cast<double>(actual[static_cast<std::size_t>(begin + i)]) - O[i].value();
            const auto distance =
                judgement.greatest(difference, factor, verify::rel_slack * std::sqrt(more));
            // One value of a wrong matrix at least is as far off as this.
            const double least = distance.limit / std::sqrt(static_cast<double>(size));
            for (Index i = 0; i < size; ++i) {
                const auto place = static_cast<std::size_t>(begin + i);
                centres[place] = distance.ok() ? static_cast<double>(actual[place]) : O[i].value();
                // What is further off than any rounding is wrong, whether or not the limit proves anything.
                limits[place] = judgement.proves || !distance.ok() ? least : HUGE_VAL;
            }
            if (judgement.proves && distance.ok() && distance.limit > 0.0)
                share = std::max(share, distance.off / distance.limit);
            if (!distance.ok())
                notes_[which] = "as a matrix, tensor " + problem().tensors[tensor].name + " is " +
                                shortest(static_cast<float>(distance.off)) +
                                " off in one direction, and the limit is " +
                                shortest(static_cast<float>(distance.limit));
        }
        Comparison comparison = verify::compare(centres, limits, actual);
        comparison.share_of_limit = std::max(comparison.share_of_limit, share);
        return comparison;
    }

    [[nodiscard]] const Group& group_of_tensor(std::size_t tensor) const {
        return problem()
            .groups[static_cast<std::size_t>(reference_.layout().tensors()[tensor].param_group)];
    }
    [[nodiscard]] double rate_of(std::size_t tensor) const {
        const auto group = static_cast<std::size_t>(reference_.layout().tensors()[tensor].param_group);
        return trace_.head().rates_of(step_)[group];
    }
    [[nodiscard]] double scaled_rate(std::size_t tensor) const {
        const std::vector<Index>& shape = problem().tensors[tensor].shape;
        return rate_of(tensor) * rate_factor(group_of_tensor(tensor).scale, shape[0], shape[1]);
    }

    /// w of a Muon tensor after an update by O.
    [[nodiscard]] Values<T> updated(std::size_t tensor, const Values<T>& O) const {
        const Index begin = reference_.layout().begin(tensor);
        const T decay = T(1.0 - rate_of(tensor) * group_of_tensor(tensor).weight_decay);
        const Values<T> w = before_.w.segment(begin, O.size());
        return (w * decay) - (T(scaled_rate(tensor)) * O);
    }

    /// From the recorded momentum and mean where steps begin at recorded states; else from the
    /// reference's.
    const Judgement& judged(std::size_t tensor) {
        const auto known = judged_.find(tensor);
        if (known != judged_.end())
            return known->second;
        const auto followed = [&](Result which) {
            const auto held = builder_.from_recorded() ? recorded(which) : std::nullopt;
            return held ? vector(*held) : value(which);
        };
        const Index begin = reference_.layout().begin(tensor);
        const Index size = reference_.layout().end(tensor) - begin;
        const Group& group = group_of_tensor(tensor);
        const std::vector<Index>& shape = problem().tensors[tensor].shape;
        Values<T> U = followed(Result::first_moment).segment(begin, size);
        if (group.nesterov) {
            const Values<T> g =
                followed(problem().clip_norm > 0.0 ? Result::clipped : Result::mean).segment(begin, size);
            U = (T(group.momentum) * U) + (T(1.0 - group.momentum) * g);
        }
        Matrix<double> centre(shape[0], shape[1]);
        double squares = 0.0;
        if constexpr (!exact)
            for (Index i = 0; i < size; ++i) {
                centre.data()[i] = U[i].value();
                squares += U[i].error() * U[i].error();
            }
        return judged_
            .emplace(tensor, judge(group, centre, verify::rel_slack * std::sqrt(squares),
                                   std::is_same_v<T, verify::BoundedBf16>))
            .first->second;
    }

    /// A skipped step changes nothing.
    void check_refused(const reference::scape::RefusedStep& refused) {
        bool changed = false;
        for (const Result which : results_)
            for (const Finding& finding : findings(which)) {
                builder_.draw(result(which).kind.name, finding);
                if (changed || finding.comparison.ok())
                    continue;
                changed = true;
                ++builder_.verdict.rows.front().mismatched;
                builder_.diverge({step_, "check", std::string(result(which).kind.name), refused.rank,
                                  refused.index, finding.comparison,
                                  std::string(refused.what()) + ". The trace shows changed " +
                                      std::string(result(which).kind.name) + " after it" +
                                      (finding.note.empty() ? "" : "; " + finding.note),
                                  finding.between_ranks});
            }
        if (!builder_.verdict.first)
            ++builder_.verdict.refused;
    }

    /// Goes on from the recorded state.
    void follow() {
        for (const auto& [which, part] : {std::pair(Result::parameters, &reference_.state.w),
                                          std::pair(Result::first_moment, &reference_.state.m),
                                          std::pair(Result::second_moment, &reference_.state.v)})
            if (const auto held = recorded(which))
                *part = vector(*held);
    }

    const TraceReader& trace_;
    verify::VerdictBuilder& builder_;
    Reference<T> reference_;
    std::vector<Result> results_;
    Index step_ = 0;
    bool refused_ = false;
    State<T> before_;
    Step<T> made_;
    std::map<std::size_t, Judgement> judged_;
    std::map<Result, std::string> notes_;
};

} // namespace truestep::verify::dense
