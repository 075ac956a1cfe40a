#include "agreement.hpp"

#include <scape/problem/digest.hpp>
#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>

namespace scape::distributed {

RefusedStep::RefusedStep(int on_rank, Index at_index, float refused, const problem::Layout& layout)
    : std::runtime_error("step refused on all ranks: the gradient of rank " + std::to_string(on_rank) +
                         ", " + layout.describe(at_index) + ", is " + shortest(refused) +
                         "; it must be finite and at most 2^56 in magnitude"),
      rank(on_rank), index(at_index), value(refused) {}

void agree_on_problem(Communicator& communicator, const problem::Problem& problem,
                      const std::vector<problem::Range>& ranges, const problem::DensitySchedule& density,
                      Reduction reduction) {
    if (communicator.size() != problem.workers)
        throw Error("the problem has " + std::to_string(problem.workers) + " workers, the communicator " +
                    std::to_string(communicator.size()) + " ranks; they must be as many");
    const std::uint64_t mine =
        problem::digest(problem, ranges, density) + static_cast<std::uint64_t>(reduction);
    const auto digests = gather_records(communicator, mine);
    for (std::size_t rank = 1; rank < digests.size(); ++rank)
        if (digests[rank] != digests[0])
            throw Error("rank " + std::to_string(rank) +
                        " was given another problem than rank 0 (digests " + std::to_string(digests[rank]) +
                        " and " + std::to_string(digests[0]) +
                        "); give all ranks the same model, settings, schedule, partition and reduction");
}

std::uint64_t agree_on_gradient(Communicator& communicator, const problem::Problem& problem, Index refused,
                                const float* gradient) {
    struct Record {
        Index refused;
        double value;
    };
    const Index d = problem.layout.size();
    const auto verdicts = gather_records(
        communicator, Record{refused, refused < d ? static_cast<double>(gradient[refused]) : 0.0});
    for (std::size_t rank = 0; rank < verdicts.size(); ++rank)
        if (verdicts[rank].refused < d)
            throw RefusedStep(static_cast<int>(rank), verdicts[rank].refused,
                              static_cast<float>(verdicts[rank].value), problem.layout);
    return sizeof(Record) * (verdicts.size() - 1);
}

} // namespace scape::distributed
