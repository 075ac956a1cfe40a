// Compares the reference's time with a copy of the memory that it has to touch, in the same
// process. The reference is plain on purpose; it only has to be fast enough that no developer skips
// the gate.
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <truestep/problem/data.hpp>
#include <truestep/reference/scape/scape.hpp>

#include "measure.hpp"

namespace {

using namespace truestep;
using problem::Index;

problem::Problem make_problem(Index size, int workers) {
    return problem::make_problem(problem::Algorithm::scape, workers,
                                 problem::Layout({{"all", size, false}}), problem::PartitionRule::by_shard,
                                 {});
}

reference::PerRank<float> make_gradients(Index size, int workers) {
    reference::PerRank<float> gradients;
    for (int rank = 0; rank < workers; ++rank) {
        reference::Vector<float> gradient(size);
        for (Index index = 0; index < size; ++index)
            gradient[index] = problem::gradient_value(problem::DataClass::normal, 1, rank, 1, index);
        gradients.push_back(std::move(gradient));
    }
    return gradients;
}

/// Bytes that any step has to move, for all ranks: read g and e and write e; read and write w once.
double least_bytes(Index size, int workers) {
    return static_cast<double>(size) * (12.0 * workers + 8.0);
}

void reference_step(benchmark::State& state) {
    const Index size = state.range(0);
    const int workers = static_cast<int>(state.range(1));
    const double density = 1.0 / static_cast<double>(state.range(2));
    reference::scape::Scape<float> optimizer(make_problem(size, workers),
                                             problem::DensitySchedule::constant(density),
                                             reference::Vector<float>::Ones(size));
    const auto gradients = make_gradients(size, workers);
    bench::Samples seconds;
    for (auto _ : state)
        seconds.push_back(
            bench::seconds_of([&] { benchmark::DoNotOptimize(optimizer.step(gradients, 1e-3).M.data()); }));
    bench::report(state, least_bytes(size, workers), seconds);
}

BENCHMARK(reference_step)
    ->ArgNames({"d", "P", "1/density"})
    ->Args({65536, 2, 100})
    ->Args({1000000, 8, 100})
    ->Args({1000000, 8, 10})
    ->Unit(benchmark::kMillisecond);

} // namespace
