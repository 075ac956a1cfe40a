// Declares the settings of averaging's cases, and draws parameters, gradients and rates for one.
#include "averaging.hpp"

#include <truestep/problem/partition.hpp>

namespace truestep::properties::averaging {

using problem::DataClass;

const gate::CaseSpec<Case>& spec() {
    using gate::from_to;
    using gate::number;
    constexpr Index most = 1'000'000;
    static const gate::CaseSpec<Case> all{
        .settings =
            {number("local_steps", &Case::local_steps, 1, most)
                 .draws(from_to<Index>(1, 5), &Case::local_steps)
                 .asked("numbers of local steps in a round", {"several local steps"})
                 .in_rows({"1", "2", "5"})
                 .always(),
             number("workers", &Case::workers, 1, problem::most_workers)
                 .draws(from_to<Index>(1, 8), &Case::workers)
                 .asked("numbers of ranks", {"several ranks"})
                 .in_rows({"1", "2", "3", "4", "5", "7", "8"})
                 .always(),
             number("size", &Case::size, 1, most).draws(from_to<Index>(1, 40), &Case::size).always(),
             number("rounds", &Case::rounds, 1, most).draws(from_to<Index>(1, 4), &Case::rounds).always(),
             number("seed", &Case::seed, 0, most).draws(from_to<Index>(1, 9), &Case::seed).always(),
             gate::word("data", &Case::data, problem::parse_data_class)
                 .draws(gate::one_of<DataClass>({DataClass::dyadic, DataClass::normal}), &Case::data)
                 .always()},
        .own_key = "local_steps",
        .draws = {{"local_steps", "workers", "size", "rounds", "data"}},
        .columns = {"workers", "local_steps"},
        .most_workers = [](const Case& run) { return static_cast<int>(run.workers); }};
    return all;
}

Vector parameters_of(const Case& run) {
    return problem::initial_parameters(run.data, static_cast<std::uint64_t>(run.seed), run.size);
}

Gradients gradients_of(const Case& run, int worker, Index round) {
    Gradients gradients;
    for (Index step = 1; step <= run.local_steps; ++step)
        gradients.push_back(problem::gradient(run.data, static_cast<std::uint64_t>(run.seed), worker,
                                              round * run.local_steps + step, run.size));
    return gradients;
}

float learning_rate_of(const Case& run) {
    return run.data == DataClass::dyadic ? 0.125F : 0.1F;
}

} // namespace truestep::properties::averaging
