// Compares a whole step of one rank, phase by phase, with two memory passes that every step needs:
// an axpy in place (g and e, 12 bytes a parameter) and a scaling in place (w, 8). Step and floor
// take turns on each rank, in one process. Ranks are threads, and each one's processor time counts; wall
// time does where several threads share one rank's passes.
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/distributed/scape/mask_code.hpp>
#include <truestep/optimizer.hpp>

#include "kernel_data.hpp"
#include "phases.hpp"
#include "random_gradient.hpp"
#include "step_counters.hpp"

namespace {

using namespace truestep;
using namespace truestep::bench;
using problem::Index;

/// One rank: its optimizer, the floor's vectors, and a gradient. That is new for each step:
/// repeating one would let residuals grow unnaturally, and the threshold jump.
class MeasuredRank {
  public:
    MeasuredRank(Index size, double density, Communicator& communicator, int threads)
        : communicator_(communicator), now_(threads == 1 ? thread_seconds : wall_seconds),
          scratch_(static_cast<std::size_t>(size), 0.0F), gradient_(static_cast<std::size_t>(size)) {
        const Layout model({{"all", size, false}});
        auto problem = problem::make_problem(problem::Algorithm::scape, communicator.size(), model,
                                             PartitionRule::by_shard, {});
        const std::vector<float> start(static_cast<std::size_t>(size), 1.0F);
        auto backend = std::make_unique<PhasedBackend>(
            distributed::scape::make_host_backend(problem, start, threads), phases_, now_);
        optimizer_ = std::make_unique<Optimizer>(
            problem, problem::ranges(model, communicator.size(), PartitionRule::by_shard),
            DensitySchedule::constant(density), std::move(backend), communicator, Optimizer::Options{});
    }

    /// Makes the next step's gradient, which is not timed.
    void make_gradient() { fill_with_random(gradient_, communicator_.rank(), made_++); }

    /// Takes a step that consumes its gradient, or only reads it.
    void step(bool using_up) {
        phases_ = {};
        const double begin = now_();
        if (using_up)
            optimizer_->step_using_up(gradient_, 1e-3);
        else
            optimizer_->step(gradient_, 1e-3);
        static_cast<void>(optimizer_->coming_mask()); // in this step's time; else the next step decodes it
        seconds_ = now_() - begin;
        double& rest = phases_[static_cast<std::size_t>(Phase::rest)];
        rest = seconds_;
        for (std::size_t phase = 0; phase + 1 < phases_.size(); ++phase)
            rest -= phases_[phase];
    }

    void floor() {
        const auto size = static_cast<Index>(gradient_.size());
        const Floors floors = floors_of(distributed::host::variant());
        floor_seconds_ = seconds_of([&] {
            floors.axpy(1e-3F, gradient_.data(), scratch_.data(), size);
            floors.scale(0.99999F, scratch_.data(), size);
        });
    }

    /// All ranks begin together.
    [[nodiscard]] bool agree(bool more) {
        return distributed::gather_records(communicator_, static_cast<int>(more))[0] != 0;
    }

    [[nodiscard]] double seconds() const { return seconds_; }
    [[nodiscard]] double floor_seconds() const { return floor_seconds_; }
    [[nodiscard]] const PhaseSeconds& phases() const { return phases_; }

  private:
    Communicator& communicator_;
    ClockFunction now_;
    distributed::AlignedFloats scratch_;
    distributed::AlignedFloats gradient_;
    int made_ = 0;
    PhaseSeconds phases_{};
    std::unique_ptr<Optimizer> optimizer_;
    double seconds_ = 0.0;
    double floor_seconds_ = 0.0;
};

/// The bytes a parameter that a phase has to move at least, or 0 where they depend on the values: vectors
/// of the model, masks (a bit each), and vectors on the mask.
double least_bytes_of(Phase phase, double density, bool using_up, Index size, int workers) {
    constexpr double mask = 1.0 / 8;
    const double packed = 4 * density;
    switch (phase) {
    case Phase::check:
        return using_up ? 0 : 4; // g
    case Phase::local:
        return 12 + 2 * mask + 2 * packed; // g, e and the new e; both masks; m and the payload
    case Phase::decode: {
        const Index shard = size / workers;
        const auto k = static_cast<Index>(density * static_cast<double>(shard));
        const auto code = static_cast<double>(distributed::scape::coded_bytes(shard, k));
        return mask + code / static_cast<double>(shard);
    }
    case Phase::update:
        return 8 + 2 * mask + 2 * packed; // w twice; both masks; m and M
    default:
        return 0;
    }
}

template <bool using_up, int threads = 1>
void whole_step(benchmark::State& state) {
    const Index size = state.range(0);
    const int workers = static_cast<int>(state.range(1));
    const double density = 1.0 / static_cast<double>(state.range(2));
    TimeOverFloor seconds;
    std::array<Samples, phase_names.size()> phases;
    run_ranks(workers, [&](Communicator& communicator) {
        const bool first = communicator.rank() == 0;
        MeasuredRank rank(size, density, communicator, threads);
        // After these steps it can predict thresholds, and looks for the coming mask in its local
        // pass: as in bench_peers.
        constexpr int warm_up = 25;
        for (int warming = 0; warming < warm_up; ++warming) {
            rank.make_gradient();
            rank.step(using_up);
        }
        while (true) {
            rank.make_gradient();
            if (!rank.agree(first && state.KeepRunning()))
                break;
            rank.floor();
            static_cast<void>(rank.agree(true));
            rank.step(using_up);
            if (!first)
                continue;
            state.SetIterationTime(rank.seconds());
            seconds.floor.push_back(rank.floor_seconds());
            seconds.action.push_back(rank.seconds());
            for (std::size_t phase = 0; phase < phases.size(); ++phase)
                phases[phase].push_back(rank.phases()[phase]);
        }
    });
    report_time(state, seconds.action);
    const double floor = quantile(seconds.floor, 0.1);
    state.counters["x_limit"] = quantile(seconds.action, 0.1) / floor;
    state.counters["floor_ms"] = floor * 1e3;
    state.counters["share_of_copy"] =
        least_bytes(size, 1) / median(seconds.action) / copy_bytes_per_second<threads>();
    for (std::size_t phase = 0; phase < phases.size(); ++phase) {
        const double tenth = quantile(phases[phase], 0.1);
        state.counters[phase_names[phase]] = tenth / floor;
        const double bytes = least_bytes_of(static_cast<Phase>(phase), density, using_up, size, workers);
        if (bytes == 0)
            continue;
        const std::string name = phase_names[phase];
        state.counters[name + "_B/param"] = bytes;
        state.counters[name + "_of_copy"] =
            bytes * static_cast<double>(size) / tenth / copy_bytes_per_second<threads>();
    }
}

void whole_step_arguments(benchmark::internal::Benchmark* benchmark) {
    benchmark->ArgNames({"d", "P", "1/density"})->Unit(benchmark::kMillisecond)->UseManualTime();
    benchmark->Iterations(21);
    for (const int ranks : {1, 8})
        for (const int size : {1 << 20, 1 << 24, 1 << 26})
            for (const int density : {100, 10})
                benchmark->Args({size, ranks, density});
}

void two_thread_arguments(benchmark::internal::Benchmark* benchmark) {
    benchmark->ArgNames({"d", "P", "1/density"})->Unit(benchmark::kMillisecond)->UseManualTime();
    benchmark->Iterations(21)->Args({1 << 24, 1, 100})->Args({1 << 24, 1, 10});
}

BENCHMARK(whole_step<false>)->Name("whole_step")->Apply(whole_step_arguments);
BENCHMARK(whole_step<true>)->Name("whole_step_using_up")->Apply(whole_step_arguments);
BENCHMARK(whole_step<false, 2>)->Name("whole_step_two_threads")->Apply(two_thread_arguments);
BENCHMARK(whole_step<true, 2>)->Name("whole_step_using_up_two_threads")->Apply(two_thread_arguments);

} // namespace
