// A training by one rank of an implementation that is made rank by rank.
#include <algorithm>
#include <memory>

#include <truestep/distributed/counting.hpp>
#include <truestep/distributed/scape/scape.hpp>

#include "live.hpp"

namespace truestep::properties::scape {

namespace {

/// Gives a rank its gradient: if it takes parts, in micro-batches, and the tensors from last to first, as
/// in a backward pass.
void give(RankUnderTest& candidate, const GradientSource::Step& step, const problem::Layout& layout,
          bool in_parts) {
    if (!in_parts)
        return candidate.step(gate::sum_of(step.parts), step.learning_rate);
    for (std::size_t part = 0; part + 1 < step.parts.size(); ++part)
        candidate.accumulate(step.parts[part]);
    const std::vector<float>& last = step.parts.back();
    constexpr std::size_t most = 4;
    std::vector<std::size_t> bucket;
    for (std::size_t tensor = layout.tensors().size(); tensor > 0; --tensor) {
        bucket.push_back(tensor - 1);
        if (bucket.size() < most && tensor > 1)
            continue;
        candidate.bucket(bucket, last);
        bucket.clear();
    }
    candidate.step(last, step.learning_rate);
}

} // namespace

void train_rank(const ImplementationSpec& ranked, const Setup& setup, GradientSource& live,
                const std::filesystem::path& folder, distributed::Communicator& ranks) {
    const auto place = ranked.place ? ranked.place(setup, ranks) : nullptr;
    distributed::CountingCommunicator communicator(place ? place->communicator() : ranks);
    const auto made = [&](const Setup& with) {
        return place ? place->make(with, communicator) : ranked.make(with, communicator);
    };
    auto candidate = made(setup);
    for (;;) {
        const ObservedState view = candidate->view();
        show(live, ranks.rank(), view);
        const GradientSource::Step step = live.next(ranks.rank(), view.parameters);
        if (step.ends)
            break;
        if (step.restarts && !folder.empty()) {
            candidate->save(folder);
            static_cast<void>(distributed::gather_records(ranks, 0)); // waits for all
            candidate.reset();
            Setup anew = setup;
            std::ranges::fill(anew.parameters, 0.0F); // so that restoring has to replace them
            candidate = made(anew);
            candidate->restore(folder);
        }
        give(*candidate, step, setup.problem.layout, ranked.takes_parts);
    }
    static_cast<void>(candidate->coming()); // leaves nothing in flight
}

} // namespace truestep::properties::scape
