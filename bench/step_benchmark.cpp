// Times a whole step of the sharded implementation on the host, and of the reference at the same
// settings, in one process.
#include <cstddef>
#include <vector>

#include <benchmark/benchmark.h>

#include <truestep/distributed/in_process.hpp>
#include <truestep/optimizer.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/reference/scape/scape.hpp>

#include "step_counters.hpp"

namespace {

using namespace truestep;
using namespace truestep::bench;
using problem::Index;

std::vector<float> make_gradient(Index size, int rank) {
    std::vector<float> gradient;
    for (Index index = 0; index < size; ++index)
        gradient.push_back(problem::gradient_value(problem::DataClass::normal, 1, rank, 1, index));
    return gradient;
}

problem::HyperParameters hyper() {
    return {};
}

void reference_step(benchmark::State& state) {
    const Index size = state.range(0);
    const int workers = static_cast<int>(state.range(1));
    const double heap_before = heap_bytes();
    reference::scape::Scape<float> optimizer(
        problem::make_problem(problem::Algorithm::scape, workers, Layout({{"all", size, false}}),
                              PartitionRule::by_shard, hyper()),
        DensitySchedule::constant(1.0 / static_cast<double>(state.range(2))),
        reference::Vector<float>::Ones(size));
    reference::PerRank<float> gradients;
    for (int rank = 0; rank < workers; ++rank) {
        const auto g = make_gradient(size, rank);
        gradients.emplace_back(Eigen::Map<const reference::Vector<float>>(g.data(), size));
    }
    report_memory(state, heap_bytes() - heap_before, size, workers);
    Samples seconds;
    for (auto _ : state)
        seconds.push_back(
            seconds_of([&] { benchmark::DoNotOptimize(optimizer.step(gradients, 1e-3).M.data()); }));
    report(state, least_bytes(size, workers), seconds);
}

/// All ranks' steps as threads of this process; the time covers all of them.
void sharded_step(benchmark::State& state) {
    const Index size = state.range(0);
    const int workers = static_cast<int>(state.range(1));
    Settings settings;
    settings.hyper = hyper();
    settings.density = DensitySchedule::constant(1.0 / static_cast<double>(state.range(2)));
    const std::vector<float> start(static_cast<std::size_t>(size), 1.0F);
    const double heap_before = heap_bytes();
    // A single rank works in its own thread only; several wait for each other.
    const ClockFunction now = workers == 1 ? thread_seconds : wall_seconds;
    Samples seconds;
    run_ranks(workers, [&](Communicator& communicator) {
        const bool first = communicator.rank() == 0;
        auto optimizer = make_optimizer(Layout({{"all", size, false}}), settings, communicator, start);
        const auto gradient = make_gradient(size, communicator.rank());
        optimizer->step(gradient, 1e-3);
        static_cast<void>(distributed::gather_records(communicator, 0)); // all have what they need
        if (first)
            report_memory(state, heap_bytes() - heap_before, size, workers);
        // Rank 0 decides when to stop, and the others follow.
        while (true) {
            const bool more = first && state.KeepRunning();
            const double begin = now();
            if (distributed::gather_records(communicator, static_cast<int>(more))[0] == 0)
                break;
            optimizer->step(gradient, 1e-3);
            if (first)
                seconds.push_back(now() - begin);
        }
        if (first)
            report_wire(state, optimizer->statistics().sent, size);
        static_cast<void>(optimizer->coming_mask());
    });
    report(state, least_bytes(size, workers), seconds);
}

void arguments(benchmark::internal::Benchmark* benchmark) {
    benchmark->ArgNames({"d", "P", "1/density"})->Unit(benchmark::kMillisecond)->UseRealTime();
    for (const int density : {100, 10}) {
        benchmark->Args({1 << 20, 1, density});
        benchmark->Args({1 << 20, 2, density});
        benchmark->Args({1 << 20, 8, density});
        benchmark->Args({1 << 24, 1, density});
        benchmark->Args({1 << 26, 1, density});
    }
}

BENCHMARK(reference_step)->Apply(arguments);
BENCHMARK(sharded_step)->Apply(arguments);

} // namespace
