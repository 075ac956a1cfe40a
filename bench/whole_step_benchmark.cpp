// Compares a whole step of one rank, phase by phase, with two memory passes that every step needs:
// an axpy in place (g and e, 12 bytes a parameter) and a scaling in place (w, 8). Step and floor
// take turns on each rank, in one process. Ranks are threads, and each one's processor time counts.
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
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
    MeasuredRank(Index size, double density, Communicator& communicator)
        : communicator_(communicator), scratch_(static_cast<std::size_t>(size), 0.0F),
          gradient_(static_cast<std::size_t>(size)) {
        const Layout model({{"all", size, false}});
        auto problem = problem::make_problem(problem::Algorithm::scape, communicator.size(), model,
                                             PartitionRule::by_shard, {});
        const std::vector<float> start(static_cast<std::size_t>(size), 1.0F);
        auto backend =
            std::make_unique<PhasedBackend>(distributed::scape::make_host_backend(problem, start), phases_);
        optimizer_ = std::make_unique<Optimizer>(
            problem, problem::ranges(model, communicator.size(), PartitionRule::by_shard),
            DensitySchedule::constant(density), std::move(backend), communicator, Optimizer::Options{});
    }

    /// Makes the next step's gradient, which is not timed.
    void make_gradient() { fill_with_random(gradient_, communicator_.rank(), made_++); }

    /// Takes a step that consumes its gradient, or only reads it.
    void step(bool using_up) {
        phases_ = {};
        const double begin = thread_seconds();
        if (using_up)
            optimizer_->step_using_up(gradient_, 1e-3);
        else
            optimizer_->step(gradient_, 1e-3);
        static_cast<void>(optimizer_->coming_mask()); // in this step's time; else the next step decodes it
        seconds_ = thread_seconds() - begin;
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
    distributed::AlignedFloats scratch_;
    distributed::AlignedFloats gradient_;
    int made_ = 0;
    PhaseSeconds phases_{};
    std::unique_ptr<Optimizer> optimizer_;
    double seconds_ = 0.0;
    double floor_seconds_ = 0.0;
};

template <bool using_up>
void whole_step(benchmark::State& state) {
    const Index size = state.range(0);
    const int workers = static_cast<int>(state.range(1));
    TimeOverFloor seconds;
    std::array<Samples, phase_names.size()> phases;
    run_ranks(workers, [&](Communicator& communicator) {
        const bool first = communicator.rank() == 0;
        MeasuredRank rank(size, 1.0 / static_cast<double>(state.range(2)), communicator);
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
        least_bytes(size, 1) / median(seconds.action) / copy_bytes_per_second();
    for (std::size_t phase = 0; phase < phases.size(); ++phase)
        state.counters[phase_names[phase]] = quantile(phases[phase], 0.1) / floor;
}

void whole_step_arguments(benchmark::internal::Benchmark* benchmark) {
    benchmark->ArgNames({"d", "P", "1/density"})->Unit(benchmark::kMillisecond)->UseManualTime();
    benchmark->Iterations(21);
    for (const int ranks : {1, 8})
        for (const int size : {1 << 20, 1 << 24, 1 << 26})
            for (const int density : {100, 10})
                benchmark->Args({size, ranks, density});
}

BENCHMARK(whole_step<false>)->Name("whole_step")->Apply(whole_step_arguments);
BENCHMARK(whole_step<true>)->Name("whole_step_using_up")->Apply(whole_step_arguments);

} // namespace
