// distributed::gasloc::Worker as an implementation under test.
#include "workers.hpp"

#include <utility>

#include <truestep/distributed/gasloc/checkpoint.hpp>
#include <truestep/gate/lender.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::properties::gasloc {

namespace {

using distributed::Peers;
namespace fs = std::filesystem;

class WorkerSubject final : public RankUnderTest {
  public:
    WorkerSubject(Settings settings, OwnedWorker housed)
        : settings_(std::move(settings)), house_(std::move(housed.house)),
          worker_(std::move(housed.worker)) {}
    bool step(std::span<const float> gradient, double learning_rate) override {
        return lender_.lend(
            gradient, [&](std::span<const float> lent) { return worker_->step(lent, learning_rate); });
    }
    bool round() override {
        round_ = worker_->round();
        return round_.skipped;
    }
    std::optional<Round> told() const override { return round_; }
    State state() const override { return worker_->state(); }
    void restore(State state) override { worker_->restore(std::move(state)); }
    void save(const fs::path& folder, int rank, int workers) const override {
        distributed::gasloc::save(folder, settings_, worker_->state(), rank, workers);
    }

  private:
    Settings settings_;
    std::shared_ptr<void> house_;
    std::unique_ptr<Worker> worker_;
    gate::Lender lender_;
    Round round_;
};

} // namespace

RankFactory
subjects_of(const std::function<OwnedWorker(const Settings&, State, Peers&, int threads)>& make) {
    return {[make](const Settings& settings, std::span<const float> parameters, Peers& peers, int threads) {
                return std::make_unique<WorkerSubject>(
                    settings, make(settings, first_state(settings, parameters), peers, threads));
            },
            [make](const Settings& settings, const fs::path& folder, Peers& peers, int threads) {
                const auto checkpoint = latest(folder);
                if (!checkpoint)
                    throw Error(folder.string() + ": there is no checkpoint; save one first");
                return std::make_unique<WorkerSubject>(
                    settings, make(settings, load(*checkpoint, settings, peers.rank(), peers.size()), peers,
                                   threads));
            },
            train};
}

RankFactory workers() {
    return subjects_of([](const Settings& settings, State state, Peers& peers, int threads) {
        return OwnedWorker{nullptr,
                           std::make_unique<Worker>(settings, std::move(state), peers, Options{threads})};
    });
}

} // namespace truestep::properties::gasloc
