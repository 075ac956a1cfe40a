// distributed::gasloc::Worker as an implementation under test.
#include "workers.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <truestep/distributed/gasloc/checkpoint.hpp>
#include <truestep/gate/leftovers.hpp>
#include <truestep/gate/lender.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::properties::gasloc {

namespace {

using distributed::Peers;
namespace fs = std::filesystem;

class WorkerSubject final : public RankUnderTest {
  public:
    WorkerSubject(Settings settings, OwnedWorker housed, Index rounds)
        : settings_(std::move(settings)), house_(std::move(housed.house)),
          worker_(std::move(housed.worker)), theta_(worker_->parameters_in_place()), round_{rounds} {}
    bool step(std::span<const float> gradient, double learning_rate) override {
        const bool taken = lender_.lend_after_too_many(
            gradient, [&](std::span<const float> lent) { return worker_->step(lent, learning_rate); });
        must_stand(taken);
        return taken;
    }
    bool round() override {
        try {
            round_ = worker_->round();
        } catch (const Halted&) {
            must_show_the_halted_round();
            throw;
        }
        must_stand(false);
        return round_.skipped;
    }
    std::optional<Round> told() const override { return round_; }
    State state() const override { return worker_->state(); }
    void restore(State state) override {
        const Index rounds = state.rounds;
        worker_->restore(std::move(state));
        round_.number = rounds;
        must_stand(false);
    }
    void save(const fs::path& folder, int rank, int workers) const override {
        distributed::gasloc::save(folder, settings_, worker_->state(), rank, workers);
        if (rank == 0)
            gate::add_what_is_no_checkpoint(folder, "round", "worker");
    }

  private:
    /// Callers hold theta's address; the parameters of a step that was taken lie elsewhere.
    void must_stand(bool elsewhere) const {
        if (theta_ != nullptr && (worker_->parameters_in_place() != theta_) != elsewhere)
            throw Error(elsewhere ? "parameters_in_place() is theta after an inner step"
                                  : "theta has another address than at first");
    }
    /// Users look at what is not finite.
    void must_show_the_halted_round() const {
        const State state = worker_->state();
        if (state.rounds != round_.number + 1)
            throw Error("the state after a halt is of round " + std::to_string(state.rounds) +
                        "; the worker halted in round " + std::to_string(round_.number + 1));
        if (std::ranges::all_of(state.theta, [](float value) { return std::isfinite(value); }))
            throw Error("the state after a halt has finite parameters");
    }

    Settings settings_;
    std::shared_ptr<void> house_;
    std::unique_ptr<Worker> worker_;
    const float* theta_; ///< its address when the worker began
    gate::Lender lender_;
    Round round_;
};

} // namespace

RankFactory
subjects_of(const std::function<OwnedWorker(const Settings&, State, Peers&, int threads)>& make) {
    return {[make](const Settings& settings, std::span<const float> parameters, Peers& peers, int threads) {
                return std::make_unique<WorkerSubject>(
                    settings, make(settings, first_state(settings, parameters), peers, threads), 0);
            },
            [make](const Settings& settings, const fs::path& folder, Peers& peers, int threads) {
                const auto checkpoint = latest(folder);
                if (!checkpoint)
                    throw Error(folder.string() + ": there is no checkpoint; save one first");
                State state = load(*checkpoint, settings, peers.rank(), peers.size());
                const Index rounds = state.rounds;
                return std::make_unique<WorkerSubject>(
                    settings, make(settings, std::move(state), peers, threads), rounds);
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
