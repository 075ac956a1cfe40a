// What must always hold of local SGD with averaging (section 11).
#include "properties.hpp"

#include <utility>

#include <truestep/reference/averaging/reference.hpp>
#include <truestep/verify/comparator.hpp>

#include "difference.hpp"
#include "implementation.hpp"

namespace truestep::properties::averaging {

namespace {

using gate::CaseJudgement;

/// One case under judgement.
class Trial {
  public:
    Trial(const gate::Implementation& implementation, const Case& judged_case)
        : run(judged_case), seen(dynamic_cast<const Implementation&>(implementation).run(run)),
          judged(run) {}

    void violated(Index round, const std::string& message, const std::string& details = "") {
        if (!judged.finding)
            judged.finding = difference(message, details, run, seen, round);
    }

    /// Compares bit for bit after a round. Only the first difference is reported.
    void compare(Index round, std::size_t rank, const reference::averaging::Vector& expected,
                 const std::string& whose) {
        const auto compared = verify::compare(expected, seen[rank].after[static_cast<std::size_t>(round)],
                                              verify::Level::exact());
        judged.counts.add({compared.compared, compared.mismatched, compared.greatest_ulps, 0.0});
        if (!compared.ok())
            violated(round,
                     "after round " + std::to_string(round + 1) + " the parameters of rank " +
                         std::to_string(rank) + " are not " + whose + ": " + verify::summary(compared),
                     verify::details(compared, problem::Layout({{"x", run.size, false}}), "  "));
    }

    Case run;
    std::vector<RankRecording> seen; ///< of each rank
    gate::JudgementOf<Case> judged;
};

CaseJudgement replicas(const gate::Implementation& implementation, const Case& run) {
    Trial trial(implementation, run);
    for (Index round = 0; round < trial.run.rounds; ++round)
        for (std::size_t rank = 1; rank < trial.seen.size(); ++rank)
            trial.compare(round, rank, trial.seen[0].after[static_cast<std::size_t>(round)], "rank 0's");
    return trial.judged;
}

CaseJudgement alone(const gate::Implementation& implementation, const Case& run) {
    Trial trial(implementation, run);
    reference::averaging::Vector x = parameters_of(trial.run);
    const float learning_rate = learning_rate_of(trial.run);
    for (Index round = 0; round < trial.run.rounds; ++round) {
        for (const reference::averaging::Vector& gradient : gradients_of(trial.run, 0, round))
            for (std::size_t i = 0; i < x.size(); ++i)
                x[i] -= learning_rate * gradient[i];
        trial.compare(round, 0, x, "those of plain SGD");
    }
    return trial.judged;
}

CaseJudgement traffic(const gate::Implementation& implementation, const Case& run) {
    Trial trial(implementation, run);
    const auto expected =
        static_cast<std::uint64_t>(trial.run.rounds * 4 * trial.run.size * (trial.run.workers - 1));
    for (std::size_t rank = 0; rank < trial.seen.size(); ++rank) {
        std::uint64_t sent = 0;
        for (const std::uint64_t bytes : trial.seen[rank].sent)
            sent += bytes;
        if (sent != expected)
            trial.violated(trial.run.rounds - 1,
                           "rank " + std::to_string(rank) + " sent " + std::to_string(sent) +
                               " bytes; its parameters to each other rank once a round are " +
                               std::to_string(expected));
    }
    return trial.judged;
}

CaseJudgement equals_the_reference(const gate::Implementation& implementation, const Case& run) {
    Trial trial(implementation, run);
    reference::averaging::Vector x = parameters_of(trial.run);
    for (Index round = 0; round < trial.run.rounds; ++round) {
        std::vector<reference::averaging::Gradients> gradients;
        gradients.reserve(static_cast<std::size_t>(trial.run.workers));
        for (int worker = 0; worker < trial.run.workers; ++worker)
            gradients.push_back(gradients_of(trial.run, worker, round));
        x = reference::averaging::after_round(x, gradients, learning_rate_of(trial.run));
        for (std::size_t rank = 0; rank < trial.seen.size(); ++rank)
            trial.compare(round, rank, x, "the reference's");
    }
    return trial.judged;
}

} // namespace

std::vector<gate::Property> properties() {
    const gate::Demands<Case> usual{"several ranks", "several local steps"};
    return {
        spec().property(1, "replicas", "After a round all workers hold the same bits.", replicas, usual),
        spec().property(2, "alone", "One worker, with any number of local steps, is plain SGD.", alone,
                        {"several local steps"},
                        [](Case run) {
                            run.workers = 1;
                            return run;
                        }),
        spec().property(3, "traffic", "A rank sends its parameters to each other rank once a round.",
                        traffic, usual),
        spec().property(0, "reference", "Every bit is the reference's.", equals_the_reference, usual)};
}

} // namespace truestep::properties::averaging
