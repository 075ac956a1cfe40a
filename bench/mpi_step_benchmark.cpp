// Times a whole step under mpirun, where every rank is a process. Rank 0 runs the benchmarks and
// sends orders to the others. A step's time is the slowest rank's, until the next mask has arrived.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <truestep/distributed/mpi.hpp>
#include <truestep/optimizer.hpp>
#include <truestep/problem/data.hpp>

#include "benchmark_out.hpp"
#include "step_counters.hpp"

namespace {

using namespace truestep;
using namespace truestep::bench;
using problem::Index;

/// An order from rank 0 to all.
struct Order {
    enum class Kind : int { make, step, end };
    Kind kind = Kind::end;
    Index size = 0;
    Index density = 1; ///< 1 / density
};

/// One rank's optimizer and gradient.
class Worker {
  public:
    Worker(Communicator& communicator, const Order& order)
        : communicator_(communicator), heap_before_(heap_bytes()) {
        gradient_.reserve(static_cast<std::size_t>(order.size));
        for (Index index = 0; index < order.size; ++index)
            gradient_.push_back(
                problem::gradient_value(problem::DataClass::normal, 1, communicator.rank(), 1, index));
        Settings settings;
        settings.density = DensitySchedule::constant(1.0 / static_cast<double>(order.density));
        optimizer_ = make_optimizer(Layout({{"all", order.size, false}}), settings, communicator,
                                    std::vector<float>(static_cast<std::size_t>(order.size), 1.0F));
        for (int warm_up = 0; warm_up < 2; ++warm_up)
            step();
        heap_ = heap_bytes() - heap_before_;
    }

    void step() {
        optimizer_->step(gradient_, 1e-3);
        static_cast<void>(optimizer_->coming_mask());
    }
    /// The slowest rank's seconds.
    double timed_step() {
        static_cast<void>(distributed::gather_records(communicator_, 0)); // all begin together
        const double begin = wall_seconds();
        step();
        const auto all = distributed::gather_records(communicator_, wall_seconds() - begin);
        return *std::max_element(all.begin(), all.end());
    }

    [[nodiscard]] const distributed::Bytes& sent() const { return optimizer_->statistics().sent; }
    [[nodiscard]] double heap() const { return heap_; }

  private:
    Communicator& communicator_;
    double heap_before_;
    double heap_ = 0.0;
    std::vector<float> gradient_;
    std::unique_ptr<Optimizer> optimizer_;
};

/// All ranks, each with rank 0's order. An optimizer is destroyed before the next is made.
class Ranks {
  public:
    explicit Ranks(Communicator& communicator) : communicator_(communicator) {}

    /// Only rank 0's order counts. Returns false at the end.
    bool follow(const Order& order = {}) {
        const Order said = distributed::gather_records(communicator_, order)[0];
        if (said.kind == Order::Kind::make) {
            worker_.reset();
            worker_ = std::make_unique<Worker>(communicator_, said);
        } else if (said.kind == Order::Kind::step) {
            seconds_ = worker_->timed_step();
        }
        return said.kind != Order::Kind::end;
    }

    void row(benchmark::State& state) {
        const Index size = state.range(0);
        follow({Order::Kind::make, size, state.range(1)});
        Samples seconds;
        for (auto _ : state) {
            follow({Order::Kind::step, size, state.range(1)});
            seconds.push_back(seconds_);
            state.SetIterationTime(seconds_);
        }
        report(state, least_bytes(size, communicator_.size()), seconds);
        report_wire(state, worker_->sent(), size);
        report_memory(state, worker_->heap(), size, 1);
    }

  private:
    Communicator& communicator_;
    std::unique_ptr<Worker> worker_;
    double seconds_ = 0.0;
};

} // namespace

int main(int argc, char** argv) {
    const distributed::MpiSession session(argc, argv);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv))
        return 1;
    const auto communicator = distributed::make_mpi_communicator();
    Ranks ranks(*communicator);
    if (communicator->rank() != 0) {
        while (ranks.follow()) {
        }
        return 0;
    }
    auto* row = benchmark::RegisterBenchmark(("mpi_step/P:" + std::to_string(communicator->size())).c_str(),
                                             [&ranks](benchmark::State& state) { ranks.row(state); });
    row->ArgNames({"d", "1/density"})->UseManualTime()->Unit(benchmark::kMillisecond);
    for (const std::int64_t density : {100, 10})
        for (const std::int64_t size : {1 << 20, 1 << 22, 1 << 24})
            row->Args({size, density});
    add_benchmark_context();
    benchmark::RunSpecifiedBenchmarks();
    ranks.follow({Order::Kind::end, 0, 1});
    return 0;
}
