// Compares the host kernels of a step with memory passes that every implementation needs: an axpy
// in place (g and e, 12 bytes per coordinate), a scaling in place (w, 8 bytes) and a read. A kernel
// and its floor take turns in one process, since machines are shared and noisy; the result is the
// ratio of the medians. One thread.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/scape/mask_code.hpp>

#include "benchmark_out.hpp"
#include "kernel_data.hpp"
#include "measure.hpp"

namespace {

using namespace truestep::distributed;
using host::Variant;
using scape::MaskCode;
using namespace truestep::bench;

/// The fastest floors on this machine; their order may differ.
const Floors& floors(const Rank& rank) {
    static const Floors best = [&rank] {
        Floors result = floors_of(Variant::plain);
        std::array<double, 3> least{1e9, 1e9, 1e9};
        for (int round = 0; round < 5; ++round)
            for (const Variant variant : host::supported_variants()) {
                const Floors tried = floors_of(variant);
                const std::array<double, 3> seconds{
                    seconds_of([&] { tried.axpy(1e-3F, rank.g.data(), rank.e.data(), rank.d); }),
                    seconds_of([&] { tried.scale(0.99999F, rank.w.data(), rank.d); }),
                    seconds_of([&] { benchmark::DoNotOptimize(tried.read(rank.e.data(), rank.shard())); })};
                if (seconds[0] < least[0])
                    result.axpy = tried.axpy;
                if (seconds[1] < least[1])
                    result.scale = tried.scale;
                if (seconds[2] < least[2])
                    result.read = tried.read;
                for (std::size_t i = 0; i < least.size(); ++i)
                    least[i] = std::min(least[i], seconds[i]);
            }
        return result;
    }();
    return best;
}

struct Goal {
    std::string text;
    double limit = 0.0; ///< of time, as a multiple of the floor's
    double measured = 0.0;
};
std::vector<Goal>& goals() {
    static std::vector<Goal> all;
    return all;
}

constexpr std::int64_t full = std::int64_t{1} << 26;
constexpr std::int64_t small = std::int64_t{1} << 22; ///< the size that ci/track uses

/// States the goal of a row at one of the two densities that have goals: as a counter, which ci/track
/// reads, and at the full size as a line at the end.
void state_goal(benchmark::State& state, const std::string& text, double at_hundredth, double at_tenth,
                double measured) {
    if (state.range(1) != 100 && state.range(1) != 10)
        return;
    const bool hundredth = state.range(1) == 100;
    state.counters["goal_share"] = 1.0 / (hundredth ? at_hundredth : at_tenth);
    if (state.range(0) != full)
        return;
    goals().push_back(
        {text + " at density " + (hundredth ? "0.01" : "0.1") + ", d = " + std::to_string(state.range(0)),
         hundredth ? at_hundredth : at_tenth, measured});
}

// ------------------------------------------------------------------------------------------------------------
// rows

template <int which>
void floor_row(benchmark::State& state) {
    Rank& rank = rank_for(state);
    const auto variant = static_cast<Variant>(state.range(2));
    state.SetLabel(std::string(host::name(variant)));
    if (static_cast<std::size_t>(variant) >= host::supported_variants().size())
        return state.SkipWithError("not on this machine");
    const Floors mine = floors_of(variant);
    const Floors& best = floors(rank);
    const auto run = [&rank](const Floors& set) {
        if constexpr (which == 0)
            set.axpy(1e-3F, rank.g.data(), rank.e.data(), rank.d);
        else if constexpr (which == 1)
            set.scale(0.99999F, rank.w.data(), rank.d);
        else
            benchmark::DoNotOptimize(set.read(rank.e.data(), rank.shard()));
    };
    constexpr double bytes[] = {12.0, 8.0, 0.5};
    take_turns(
        state, bytes[which] * static_cast<double>(rank.d), [&] { run(best); }, [&] { run(mine); });
}

/// The share of its work that the local pass does twice: the slow-down that `ci/track --self-test`
/// plants.
double planted_share() {
    const char* text = std::getenv("TRUESTEP_BENCH_PLANT");
    return text == nullptr ? 0.0 : std::strtod(text, nullptr);
}

void local_row(benchmark::State& state) {
    Rank& rank = rank_for(state);
    const Floors& best = floors(rank);
    const Index again = static_cast<Index>(planted_share() * static_cast<double>(rank.d) /
                                           static_cast<double>(Mask::chunk)) *
                        Mask::chunk;
    const double ratio = take_turns(
        state, 12.0 * static_cast<double>(rank.d),
        [&] { best.axpy(1e-3F, rank.g.data(), rank.e.data(), rank.d); },
        [&] {
            rank.local_pass(rank.d);
            rank.local_pass(again);
        });
    state_goal(state, "local_pass: bytes/s of the axpy", 1.0 / 0.95, 1.0 / 0.90, ratio);
}

/// The local pass of a step, including its search for the coming mask. `missed`: the share of
/// passes after which the selection had to read the shard again, which is not timed here.
void watching_row(benchmark::State& state) {
    Rank& rank = rank_for(state);
    const Floors& best = floors(rank);
    constexpr int to_foresee = 16;
    for (int pass = 0; pass < to_foresee; ++pass) {
        rank.watching_pass();
        rank.take_watched();
    }
    Index passes = 0;
    Index missed = 0;
    TimeOverFloor seconds;
    for (auto _ : state) {
        seconds.floor.push_back(
            seconds_of([&] { best.axpy(1e-3F, rank.g.data(), rank.e.data(), rank.d); }));
        seconds.action.push_back(seconds_of([&] { rank.watching_pass(); }));
        state.SetIterationTime(seconds.action.back());
        ++passes;
        missed += rank.take_watched() ? 1 : 0;
    }
    report_floor(state, seconds, 12.0 * static_cast<double>(rank.d));
    state.counters["missed"] = static_cast<double>(missed) / static_cast<double>(passes);
    state_goal(state, "local_pass_watching: bytes/s of the axpy", 1.0 / 0.95, 1.0 / 0.88, seconds.ratio());
}

void update_row(benchmark::State& state) {
    Rank& rank = rank_for(state);
    const Floors& best = floors(rank);
    const double ratio = take_turns(
        state, 8.0 * static_cast<double>(rank.d), [&] { best.scale(0.99999F, rank.w.data(), rank.d); },
        [&] { rank.update(); });
    state_goal(state, "update with decay: bytes/s of the scale", 1.0 / 0.97, 1.0 / 0.80, ratio);
}

/// Selects from a shard that is not in the caches, as in a step. It has no hint, or the one that
/// the last call left.
void select_row(benchmark::State& state) {
    Rank& rank = rank_for(state);
    const Floors& best = floors(rank);
    const bool hinted = state.range(2) != 0;
    state.SetLabel(hinted ? "good hint" : "no hint");
    std::uint32_t threshold = 0;
    TimeOverFloor seconds;
    rank.next.clear();
    rank.select(threshold);
    for (auto _ : state) {
        best.scale(0.99999F, rank.w.data(), rank.d);
        seconds.floor.push_back(
            seconds_of([&] { benchmark::DoNotOptimize(best.read(rank.e.data(), rank.shard())); }));
        best.scale(0.99999F, rank.w.data(), rank.d);
        rank.next.clear();
        if (!hinted)
            threshold = 0;
        seconds.action.push_back(seconds_of([&] { rank.select(threshold); }));
        state.SetIterationTime(seconds.action.back());
    }
    report_floor(state, seconds, 0.5 * static_cast<double>(rank.d));
}

void whole_row(benchmark::State& state) {
    Rank& rank = rank_for(state);
    const Floors& best = floors(rank);
    std::uint32_t threshold = 0;
    const double ratio = take_turns(
        state, 20.5 * static_cast<double>(rank.d),
        [&] {
            best.axpy(1e-3F, rank.g.data(), rank.e.data(), rank.d);
            benchmark::DoNotOptimize(best.read(rank.e.data(), rank.shard()));
            best.scale(0.99999F, rank.w.data(), rank.d);
            rank.next.clear(); // in both cases, since the selector expects it empty
        },
        [&] {
            rank.next.clear();
            rank.local_pass(rank.d);
            rank.select(threshold);
            rank.update();
        });
    state_goal(state, "whole local work: time of axpy + scale + read of the shard", 1.08, 1.20, ratio);
}

/// Folds an owner's share of the payload from eight ranks, compared with a copy of the same size.
void fold_row(benchmark::State& state) {
    constexpr int workers = 8;
    const auto count = state.range(0) / state.range(1) / workers;
    const Floats parts(count * workers);
    const Floats mean(count);
    std::uint64_t random = 1;
    for (Index i = 0; i < count * workers; ++i)
        parts[i] = random_value(random);
    Scalars scalars;
    scalars.workers = workers;
    const auto bytes = static_cast<double>(count * (workers + 1)) * sizeof(float);
    const auto half = static_cast<std::size_t>(bytes / 2);
    std::vector<char> copy(half);
    take_turns(
        state, bytes,
        [&] {
            std::memcpy(copy.data(), parts.data(), half);
            benchmark::DoNotOptimize(copy.data());
        },
        [&] { host::fold(scalars, workers, 0, count, parts.data(), count, mean.data()); });
}

/// The masks of eight ranks, each of its own shard, as the selection leaves them.
struct Masks {
    explicit Masks(const Rank& rank) : mask(rank.d), decoded(rank.d) {
        for (Index begin = 0; begin < rank.d; begin += rank.shard()) {
            parts.push_back({begin, begin + rank.shard(), rank.k()});
            std::uint32_t threshold = 0;
            host::Selector::select(begin, begin + rank.shard(), rank.k(), rank.e.data(), rank.current,
                                   rank.payload->data(), mask, threshold);
        }
        code.resize(MaskCode::bytes(parts));
    }
    Mask mask;
    Mask decoded;
    std::vector<MaskCode::Part> parts;
    std::vector<std::uint8_t> code;
};

/// Encodes a rank's own shard, or decodes all shards, compared with a copy of the bytes of bitmap
/// and code together.
template <bool decodes>
void mask_row(benchmark::State& state) {
    Masks masks(rank_for(state));
    MaskCode::encode(masks.parts, masks.mask, masks.code.data());
    const std::span<const MaskCode::Part> parts(masks.parts.data(), decodes ? masks.parts.size() : 1);
    const std::size_t coded = MaskCode::bytes(parts);
    const auto bytes = static_cast<double>(coded) + static_cast<double>(parts.back().end) / 8;
    std::vector<char> copy(static_cast<std::size_t>(bytes / 2));
    take_turns(
        state, bytes,
        [&] {
            std::memcpy(copy.data(), masks.mask.words(), copy.size());
            benchmark::DoNotOptimize(copy.data());
        },
        [&] {
            if constexpr (decodes) {
                MaskCode::decode(parts, masks.code.data(), masks.decoded);
                masks.decoded.count();
            } else {
                MaskCode::encode(parts, masks.mask, masks.code.data());
            }
        });
    state.counters["mask_B/param"] =
        static_cast<double>(coded) / static_cast<double>(parts.back().end - parts.front().begin);
}

void floor_arguments(benchmark::internal::Benchmark* row) {
    row->ArgNames({"d", "1/density", "variant"});
    for (const std::int64_t variant : {0, 1, 2})
        row->Args({full, 100, variant});
    row->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(15);
}
template <int density>
void kernel_arguments(benchmark::internal::Benchmark* row) {
    row->ArgNames({"d", "1/density"})->Args({full, density})->Args({small, density});
    row->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(41);
}
/// Arguments for rows that take microseconds.
template <int density>
void quick_arguments(benchmark::internal::Benchmark* row) {
    row->ArgNames({"d", "1/density"})->Args({full, density})->Args({small, density});
    row->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(201);
}
template <int density>
void select_arguments(benchmark::internal::Benchmark* row) {
    row->ArgNames({"d", "1/density", "hint"});
    for (const std::int64_t size : {full, small})
        for (const std::int64_t hint : {0, 1})
            row->Args({size, density, hint});
    row->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(21);
}

BENCHMARK(floor_row<0>)->Name("axpy")->Apply(floor_arguments);
BENCHMARK(floor_row<1>)->Name("scale")->Apply(floor_arguments);
BENCHMARK(floor_row<2>)->Name("read_of_shard")->Apply(floor_arguments);
BENCHMARK(local_row)->Name("local_pass")->Apply(kernel_arguments<100>);
BENCHMARK(watching_row)->Name("local_pass_watching")->Apply(kernel_arguments<100>);
BENCHMARK(update_row)->Name("update")->Apply(kernel_arguments<100>);
BENCHMARK(select_row)->Name("select")->Apply(select_arguments<100>);
BENCHMARK(whole_row)->Name("whole_local_work")->Apply(kernel_arguments<100>);
BENCHMARK(fold_row)->Name("fold")->Apply(quick_arguments<100>);
BENCHMARK(mask_row<false>)->Name("mask_encode")->Apply(quick_arguments<100>);
BENCHMARK(mask_row<true>)->Name("mask_decode")->Apply(quick_arguments<100>);
BENCHMARK(local_row)->Name("local_pass")->Apply(kernel_arguments<10>);
BENCHMARK(watching_row)->Name("local_pass_watching")->Apply(kernel_arguments<10>);
BENCHMARK(update_row)->Name("update")->Apply(kernel_arguments<10>);
BENCHMARK(select_row)->Name("select")->Apply(select_arguments<10>);
BENCHMARK(whole_row)->Name("whole_local_work")->Apply(kernel_arguments<10>);
BENCHMARK(fold_row)->Name("fold")->Apply(quick_arguments<10>);
BENCHMARK(mask_row<false>)->Name("mask_encode")->Apply(quick_arguments<10>);
BENCHMARK(mask_row<true>)->Name("mask_decode")->Apply(quick_arguments<10>);

} // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv))
        return 1;
    add_benchmark_context();
    benchmark::RunSpecifiedBenchmarks();
    for (const Goal& goal : goals())
        std::printf("%-8s %s: at most %.3f times the floor's time, measured %.3f (%.1f %% of its speed)\n",
                    goal.measured <= goal.limit ? "met" : "NOT MET", goal.text.c_str(), goal.limit,
                    goal.measured, 100.0 / goal.measured);
    return 0;
}
