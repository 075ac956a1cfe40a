// The reference, round by round, with the results that a trace holds of each.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <truestep/reference/gasloc/reference.hpp>
#include <truestep/verify/compare_with_reference.hpp>
#include <truestep/verify/gasloc/traces.hpp>

namespace truestep::verify::gasloc {

using namespace reference::gasloc;

/// T is float for EXACT, Bounded for REL.
template <class T>
class Rounds {
  public:
    explicit Rounds(const Head& head)
        : reference(head.config.settings, head.config.workers,
                    verify::to_vector<T>(head.initial_parameters)),
          head_(head) {}

    void take(const std::vector<Gradients<T>>& gradients) {
        const Index round = reference.rounds + 1;
        graph = graph_of(settings(), round, head_.config.workers);
        went = reference.round(gradients, head_.learning_rates_of(round), graph);
    }

    /// Takes the next round with the recorded gradients.
    void take(const TraceReader& trace) {
        std::vector<Gradients<T>> gradients(reference.state.size());
        const Index round = reference.rounds + 1;
        for (int worker = 0; worker < head_.config.workers; ++worker)
            for (Index h = 1; h <= head_.config.steps(worker, round); ++h)
                gradients[static_cast<std::size_t>(worker)].push_back(
                    verify::to_vector<T>(trace.input(gradient_kind(h), round, worker)));
        take(gradients);
    }

    /// A result of the round.
    [[nodiscard]] const Vector<T>& value(Result which, int worker) const {
        const auto at = static_cast<std::size_t>(worker);
        switch (which) {
        case Result::inner:
            return went[at].x;
        case Result::drifted:
            return went[at].y;
        case Result::gossiped:
            return went[at].z;
        case Result::first_moment:
            return reference.state[at].m;
        case Result::second_moment:
            return reference.state[at].v;
        case Result::parameters:
            break;
        }
        return reference.state[at].theta;
    }

    /// Continues from the state that the trace holds after this round.
    void follow(const TraceReader& trace) {
        for (std::size_t i = 0; i < reference.state.size(); ++i) {
            WorkerState<T>& state = reference.state[i];
            for (const auto& [which, part] :
                 {std::pair(Result::parameters, &state.theta),
                  std::pair(result_before(settings().momentum), &state.before),
                  std::pair(Result::first_moment, &state.m), std::pair(Result::second_moment, &state.v)})
                if (has(settings().inner, which))
                    *part = verify::to_vector<T>(
                        trace.values(result(which).kind, reference.rounds, static_cast<int>(i)).value());
        }
    }

    Reference<T> reference;
    Graph graph;                      ///< of the round
    std::vector<WorkerRound<T>> went; ///< results of the round, by worker

  private:
    [[nodiscard]] const Settings& settings() const { return head_.config.settings; }

    const Head& head_;
};

} // namespace truestep::verify::gasloc
