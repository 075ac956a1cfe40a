// Compares a whole step of Muon on one rank with the bare matrix products of its five iterations, by the
// same library. Both take turns in one process, since machines are shared and noisy. One thread.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <truestep/distributed/aligned.hpp>
#include <truestep/distributed/dense/worker.hpp>
#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/mapl/products.hpp>

#include "benchmark_out.hpp"
#include "measure.hpp"

namespace {

using namespace truestep;
using namespace truestep::distributed::dense;
using distributed::mapl::multiply;
using Floats = distributed::AlignedFloats;

Floats some(std::size_t count, double step) {
    Floats values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(0.02 * std::sin(step * static_cast<double>(i % 100003)));
    return values;
}

/// The products of one iteration.
struct Iteration {
    std::size_t rows;
    std::size_t columns;
    std::size_t side = std::min(rows, columns);
    bool tall = rows > columns;
    Floats x = some(rows * columns, 0.37);
    Floats gram = Floats(side * side);
    Floats inner = gram;
    Floats next = x;

    void bare() {
        multiply({.rows = side,
                  .columns = side,
                  .inner = std::max(rows, columns),
                  .first_transposed = tall,
                  .second_transposed = !tall},
                 x.data(), x.data(), gram.data());
        multiply({.rows = side, .columns = side, .inner = side}, gram.data(), gram.data(), inner.data());
        multiply({.rows = rows, .columns = columns, .inner = side}, tall ? x.data() : inner.data(),
                 tall ? inner.data() : x.data(), next.data());
    }
};

void muon_step_row(benchmark::State& state) {
    const Index rows = state.range(0);
    const Index columns = state.range(1);
    Problem problem;
    problem.tensors = {{"matrix", {rows, columns}, "matrix"}};
    problem.groups = {group_of(Rule::muon, {"matrix"})};
    problem.ranks = 1;
    problem.micro_batches = {1};
    distributed::run_ranks(1, [&](distributed::Communicator& alone) {
        Iteration iteration{static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)};
        Worker worker(problem, iteration.x, alone);
        const Floats gradient = some(iteration.x.size(), 0.11);
        const bench::TimeOverFloor seconds = bench::take_turns(
            state,
            [&] {
                for (int i = 0; i < problem.groups[0].iterations; ++i)
                    iteration.bare();
            },
            [&] {
                worker.add(gradient);
                if (!worker.step({1e-3}))
                    state.SkipWithError("ERROR: a gradient was refused");
            });
        bench::report_time(state, seconds.action);
        state.counters["share_of_products"] = quantile(seconds.floor, 0.1) / quantile(seconds.action, 0.1);
        state.counters["share_of_median"] = 1.0 / seconds.ratio();
    });
}

} // namespace

// Matrices of a GPT of width 768, and a small square one; a tall one is as its transpose.
BENCHMARK(muon_step_row)
    ->Name("muon_step")
    ->ArgNames({"rows", "columns"})
    ->Args({256, 256})
    ->Args({768, 768})
    ->Args({2304, 768})
    ->Args({3072, 768})
    ->Args({768, 3072})
    ->UseManualTime();

int main(int argc, char** argv) {
    distributed::mapl::one_thread_unless_asked();
    bench::add_benchmark_context();
    benchmark::AddCustomContext("products", std::string(distributed::mapl::products_by()));
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv))
        return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
