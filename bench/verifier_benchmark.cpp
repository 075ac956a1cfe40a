// Times the verification: traces per second of `truestep verify`, cases per second of the gate's
// properties. Slow checks do not get used.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <truestep/gate/search.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/properties/scape/implementations.hpp>
#include <truestep/properties/scape/system.hpp>
#include <truestep/verify/scape/record.hpp>
#include <truestep/verify/scape/verify_trace.hpp>

#include "measure.hpp"
#include "scratch.hpp"

namespace {

using namespace truestep;
using namespace truestep::bench;

/// Judges a trace, as from `truestep record`, repeatedly. `bytes`: those of the file.
void verify_row(benchmark::State& state, const verify::Level& level) {
    const Scratch folder;
    const auto path = folder.path() / "trace.safetensors";
    verify::scape::RecordOptions options{
        .problem = problem::make_problem(problem::Algorithm::scape, static_cast<int>(state.range(1)),
                                         problem::Layout({{"all", state.range(0), false}}),
                                         problem::PartitionRule::by_shard, {}),
        .density = problem::DensitySchedule::constant(1.0 / static_cast<double>(state.range(2))),
        .steps = 4,
        .injections = {},
        .source = "bench_verifier"};
    verify::scape::record(path, options);
    verify::VerifyOptions how;
    how.level = level;
    const auto judge = [&] {
        if (verify::scape::verify_trace(path, how).status != verify::Status::passed)
            throw Error(path.string() + ": the reference's own trace has not passed");
    };
    Samples seconds;
    for (auto _ : state) {
        seconds.push_back(seconds_of(judge));
        state.SetIterationTime(seconds.back());
    }
    bench::report(state, static_cast<double>(std::filesystem::file_size(path)), seconds);
    state.counters["traces/s"] = 1.0 / median(seconds);
}

void verify_exact(benchmark::State& state) {
    verify_row(state, verify::Level::exact());
}
void verify_rel(benchmark::State& state) {
    verify_row(state, verify::Level::rel());
}

std::shared_ptr<const properties::scape::Implementation> implementation(const std::string& name) {
    for (const auto& one :
         properties::scape::all_implementations(gate::make_thread_group(std::chrono::seconds(60))))
        if (one->name() == name)
            return one;
    throw Error("this build has no implementation " + name);
}

/// Tests the host's implementation against one property, with ranks as threads, repeatedly from the
/// same seed. The floor is the reference on the same cases, without threads or exchanges. It counts
/// processor time of all threads, since waiting depends on the scheduler.
void cases_row(benchmark::State& state, const std::string& name) {
    constexpr int cases = 100;
    static const gate::System system = properties::scape::system_of_properties();
    const gate::Property& property = system.property(name);
    gate::SearchOptions options;
    options.cases = cases;
    const auto search = [&](const std::string& who) {
        return [&, one = implementation(who)] {
            if (gate::search(system, *one, property, options).counterexample)
                throw Error(one->name() + " has not " + name);
        };
    };
    const TimeOverFloor seconds = take_turns(state, search("reference"), search("host"), process_seconds);
    report_floor(state, seconds);
    state.counters["cases/s"] = cases / median(seconds.action);
}

void verify_arguments(benchmark::internal::Benchmark* row) {
    row->ArgNames({"d", "P", "1/density"})->UseManualTime()->Unit(benchmark::kMillisecond);
    row->Args({100, 3, 10})->Args({100'000, 3, 100})->Args({1'000'000, 3, 100});
}

void cases_arguments(benchmark::internal::Benchmark* row) {
    row->UseManualTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(verify_exact)->Apply(verify_arguments);
BENCHMARK(verify_rel)->Apply(verify_arguments);
BENCHMARK_CAPTURE(cases_row, conservation, "conservation.exact")
    ->Name("cases/conservation")
    ->Apply(cases_arguments);
BENCHMARK_CAPTURE(cases_row, reference, "reference")->Name("cases/reference")->Apply(cases_arguments);
BENCHMARK_CAPTURE(cases_row, machine, "machine")->Name("cases/machine")->Apply(cases_arguments);

} // namespace
