#include "agreement.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

#include <scape/problem/digest.hpp>
#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>

namespace scape::distributed {

RefusedStep::RefusedStep(int on_rank, Index at_index, float refused, const problem::Layout& layout)
    : std::runtime_error("step refused on all ranks: the gradient of rank " + std::to_string(on_rank) +
                         ", " + layout.describe(at_index) + ", is " + shortest(refused) +
                         "; it must be finite and at most 2^56 in magnitude"),
      rank(on_rank), index(at_index), value(refused) {}

namespace {

std::uint64_t digest_of_bits(std::span<const float> values) {
    std::uint64_t digest = 0x243f'6a88'85a3'08d3U;
    for (const float value : values)
        digest = std::rotl((digest ^ std::bit_cast<std::uint32_t>(value)) * 0x9e37'79b9'7f4a'7c15U, 31);
    return digest;
}

} // namespace

void check_finite(const problem::Layout& layout, const std::string& what, std::span<const float> values) {
    // Without a way out of the loop it is vectorized, and most often it is all there is to do. Every bit of
    // the exponent set, and only that, adds up to the sign.
    std::uint32_t signs = 0;
    for (const float value : values)
        signs |= (std::bit_cast<std::uint32_t>(value) & 0x7FFF'FFFFU) + 0x0080'0000U;
    if ((signs & 0x8000'0000U) == 0)
        return;
    for (std::size_t i = 0; i < values.size(); ++i)
        if (!std::isfinite(values[i]))
            throw Error(what + " of " + layout.describe(static_cast<Index>(i)) + " is " +
                        shortest(values[i]) + "; it must be finite");
}

void check_step(const problem::Layout& layout, const std::string& halted, std::size_t gradient_size,
                double learning_rate) {
    if (!halted.empty())
        throw Halted("no step can be taken: " + halted + "; restore a state to go on");
    if (gradient_size != static_cast<std::size_t>(layout.size()))
        throw Error("gradient: " + std::to_string(gradient_size) + " values given; the model has " +
                    std::to_string(layout.size()));
    if (!std::isfinite(learning_rate))
        throw Error("learning rate is " + shortest(learning_rate) + "; it must be finite");
}

void agree_on_problem(Communicator& communicator, const problem::Problem& problem,
                      const std::vector<problem::Range>& ranges, const problem::DensitySchedule& density,
                      Reduction reduction, std::span<const float> parameters) {
    if (parameters.size() != static_cast<std::size_t>(problem.layout.size()))
        throw Error("parameters: " + std::to_string(parameters.size()) + " values given; the model has " +
                    std::to_string(problem.layout.size()));
    if (communicator.size() != problem.workers)
        throw Error("the problem has " + std::to_string(problem.workers) + " workers, the communicator " +
                    std::to_string(communicator.size()) + " ranks; they must be as many");
    struct Record {
        std::uint64_t problem;
        std::uint64_t parameters;
    };
    const auto all = gather_records(communicator, Record{problem::digest(problem, ranges, density) +
                                                             static_cast<std::uint64_t>(reduction),
                                                         digest_of_bits(parameters)});
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank].problem != all[0].problem)
            throw Error("rank " + std::to_string(rank) +
                        " was given another problem than rank 0 (digests " +
                        std::to_string(all[rank].problem) + " and " + std::to_string(all[0].problem) +
                        "); give all ranks the same model, settings, schedule, partition and reduction");
        if (all[rank].parameters != all[0].parameters)
            throw Error("rank " + std::to_string(rank) +
                        " was given other initial parameters than rank 0; give all ranks the same bits");
    }
    // The same on all ranks by now, so all throw.
    check_finite(problem.layout, "initial parameter", parameters);
}

std::uint64_t agree_on_gradient(Communicator& communicator, const problem::Problem& problem, Index refused,
                                float value) {
    struct Record {
        Index refused;
        double value;
    };
    const Index d = problem.layout.size();
    const auto verdicts = gather_records(communicator, Record{refused, static_cast<double>(value)});
    for (std::size_t rank = 0; rank < verdicts.size(); ++rank)
        if (verdicts[rank].refused < d)
            throw RefusedStep(static_cast<int>(rank), verdicts[rank].refused,
                              static_cast<float>(verdicts[rank].value), problem.layout);
    return sizeof(Record) * (verdicts.size() - 1);
}

} // namespace scape::distributed
