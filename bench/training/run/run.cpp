// Trains P ranks and returns the curve.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include <truestep/distributed/counting.hpp>
#include <truestep/distributed/counting_peers.hpp>
#include <truestep/distributed/gasloc/worker.hpp>
#include <truestep/distributed/mpi.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/problem/timeline.hpp>
#include <truestep/training/run.hpp>

#include "checkpoint.hpp"
#include "multi_process_checkpoint.hpp"
#include "optimizer.hpp"
#include "peers/links.hpp"
#include "pipeline.hpp"
#include "windows.hpp"

namespace truestep::training {

namespace {

/// A loss or a gradient is not finite.
struct Diverged : std::exception {};

/// The data that all ranks share.
struct Run {
    const Text& text;
    const Plan& plan;
    std::string optimizer;
    std::uint64_t seed;
    peers::Choice choice;
    std::vector<std::size_t> measured;      ///< after which steps
    nlohmann::ordered_json identity{};      ///< where checkpoints are kept
    std::optional<Checkpoint> begun_with{}; ///< from which it continues

    [[nodiscard]] bool keeps() const { return !plan.checkpoints.empty(); }
};

/// The start, the end, and each end of a round in which a measurement is due.
std::vector<std::size_t> measured_steps(const Plan& plan, const peers::Choice& choice) {
    const auto round = static_cast<std::size_t>(peers::inner_steps(*choice.kind, choice.setting));
    std::vector<std::size_t> steps{0};
    bool due = false;
    for (std::size_t step = 1; step <= plan.steps; ++step) {
        due = due || step % plan.measure_every == 0 || step == plan.steps;
        if (due && (step % round == 0 || step == plan.steps)) {
            steps.push_back(step);
            due = false;
        }
    }
    return steps;
}

class Rank {
  public:
    /// All ranks put the data of the next checkpoint into `kept`.
    Rank(const Run& run, const peers::Links& links, Checkpoint& kept)
        : run_(run), kept_(kept), bare_(links.all), all_(links.all), each_(links.each),
          windows_(run.text, run.plan.shape.context, run.plan.measured_windows),
          model_(run.plan.shape, run.plan.batch) {
        std::vector<float> start = initial_parameters(run.plan.shape, run.seed);
        model_size_ = start.size();
        start.resize(static_cast<std::size_t>(run.choice.setting.size)); // anchors begin as 0
        gradient_.resize(start.size());
        if (run.plan.stages > 1)
            pipeline_.emplace(run.plan, compression_of(run.optimizer), run.seed, peers::Links{all_, each_});
        peer_ = peers::make_peer(run.choice.kind->name, run.choice.setting, {all_, each_}, start);
        if (run.begun_with)
            go_on_from(*run.begun_with);
    }

    /// Appends the points, the same on all ranks, as far as the run comes.
    void train(const Watch& watch, std::vector<Curve::Point>& points) {
        points = run_.begun_with ? run_.begun_with->points : std::vector{measure(0)};
        bool to_keep = false;
        for (std::size_t step = first_step_; step <= run_.plan.steps; ++step) {
            const double loss = take(step);
            if (watch)
                watch(step, loss);
            if (points.size() < run_.measured.size() && step == run_.measured[points.size()])
                points.push_back(measure(step));
            to_keep = to_keep || step % run_.plan.checkpoint_every == 0 || step == run_.plan.steps;
            if (run_.keeps() && to_keep && open_steps_ == 0) {
                keep(step, points);
                to_keep = false;
            }
        }
        peer_->finish();
    }

  private:
    double take(std::size_t step) {
        const Batch& batch = windows_.drawn(run_.seed, bare_.rank(), step, run_.plan.batch);
        const std::span<float> gradient(gradient_);
        const double loss = [&] {
            const problem::Span span("forward and backward", bare_.rank());
            return model_.loss_and_gradient(parameters(), batch, gradient.first(model_size_),
                                            stages_of(batch, gradient.subspan(model_size_)));
        }();
        const auto finite = [](float value) { return std::isfinite(value); };
        const bool diverged = !std::isfinite(loss) || !std::ranges::all_of(gradient_, finite);
        if (run_.plan.processes ? any(diverged) : diverged)
            throw Diverged();
        const double rate = learning_rate_at(run_.plan, step);
        peers::LocalPeer* const local = peer_->local();
        if (local == nullptr) {
            peer_->step(gradient_, rate);
            if (pipeline_)
                pipeline_->end_step(rate);
            return loss;
        }
        local->inner_step(gradient_, rate);
        // A round's end exchanges the last steps' progress, too.
        const auto whole =
            static_cast<std::size_t>(peers::inner_steps(*run_.choice.kind, run_.choice.setting));
        if (++open_steps_ == whole || step == run_.plan.steps) {
            local->end_round();
            open_steps_ = 0;
        }
        return loss;
    }

    [[nodiscard]] std::span<const float> parameters() const {
        return peer_->parameters().first(model_size_);
    }
    /// The stages of a pass over this batch, or nullptr without stages.
    Pipeline* stages_of(const Batch& batch, std::span<float> anchor_gradients = {}) {
        if (!pipeline_)
            return nullptr;
        pipeline_->begin(batch.inputs, peer_->parameters().subspan(model_size_), anchor_gradients);
        return &*pipeline_;
    }

    /// Returns true on all ranks if it is true on any. A process that leaves alone would end the
    /// job, and a thread would end all.
    bool any(bool here) {
        for (const int there : distributed::gather_records(bare_, here ? 1 : 0))
            if (there != 0)
                return true;
        return false;
    }

    void go_on_from(const Checkpoint& checkpoint) {
        const auto rank = static_cast<std::size_t>(bare_.rank());
        peer_->restore(checkpoint.ranks.at(rank));
        if (pipeline_)
            pipeline_->restore(checkpoint.ranks.at(rank));
        // The checkpoint includes the bytes of the start.
        all_.reset();
        each_.reset();
        sent_before_ = checkpoint.sent.at(rank);
        first_step_ = checkpoint.step + 1;
    }

    void keep(std::size_t step, const std::vector<Curve::Point>& points) {
        const auto rank = static_cast<std::size_t>(bare_.rank());
        kept_.ranks[rank] = peer_->state();
        if (pipeline_)
            pipeline_->add_to(kept_.ranks[rank]);
        kept_.sent[rank] = sent_by_links();
        if (run_.plan.processes)
            bring_to_first(kept_, bare_);
        else
            static_cast<void>(distributed::gather_records(bare_, 0)); // all have
        if (rank == 0) {
            kept_.step = step;
            kept_.points = points;
            save(checkpoint_path(run_.plan.checkpoints, run_.optimizer, run_.seed), run_.identity, kept_);
        }
        static_cast<void>(distributed::gather_records(bare_, 0)); // it is written
    }

    /// Ranks share the windows.
    Curve::Point measure(std::size_t step) {
        struct Share {
            double loss = 0; ///< the sum over its windows
            std::uint64_t bytes = 0;
        };
        const problem::Span span("measure", bare_.rank());
        const auto ranks = static_cast<std::size_t>(bare_.size());
        const auto rank = static_cast<std::size_t>(bare_.rank());
        const std::size_t count = windows_.measured_count();
        Share mine{0, sent()};
        const std::size_t begin = count * rank / ranks;
        const std::size_t end = count * (rank + 1) / ranks;
        for (std::size_t first = begin; first < end; first += run_.plan.batch) {
            const std::size_t taken = std::min(run_.plan.batch, end - first);
            const Batch& batch = windows_.measured(first, taken);
            mine.loss += static_cast<double>(taken) * model_.loss(parameters(), batch, stages_of(batch));
        }
        Curve::Point point{step, 0, 0};
        for (const Share& share : distributed::gather_records(bare_, mine)) {
            point.loss += share.loss / static_cast<double>(count);
            point.bytes += share.bytes;
        }
        return point;
    }

    /// Bytes that this rank has sent so far, including those between its stages.
    [[nodiscard]] std::uint64_t sent() const {
        return sent_by_links() + (pipeline_ ? pipeline_->sent() : 0);
    }
    [[nodiscard]] std::uint64_t sent_by_links() const {
        const auto sum = [](const distributed::Bytes& bytes) {
            return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
        };
        return sent_before_ + sum(all_.bytes()) + sum(each_.bytes());
    }

    const Run& run_;
    Checkpoint& kept_;
    distributed::Communicator& bare_; ///< without counting
    distributed::CountingCommunicator all_;
    distributed::CountingPeers each_;
    Windows windows_;
    Model<float> model_;
    std::vector<float> gradient_;
    std::size_t model_size_ = 0; ///< of all parameters; behind them stand anchors
    std::unique_ptr<peers::Peer> peer_;
    std::optional<Pipeline> pipeline_;
    std::size_t open_steps_ = 0; ///< of a round that has not ended
    std::size_t first_step_ = 1;
    std::uint64_t sent_before_ = 0; ///< by the runs whose checkpoint this one continues
};

/// Neither threads nor processes get lost; a longer wait means that the machine is busy with
/// something else.
constexpr std::chrono::hours patience{24};

/// This process is one of the ranks; called once.
void run_as_processes(const std::function<void(const peers::Links&)>& work) {
    const auto all = distributed::make_mpi_communicator({patience});
    const auto each = distributed::make_mpi_peers({patience});
    work({*all, *each});
}

/// Returns false if the run diverged.
template <class Work>
bool comes_to_its_end(const Work& work) {
    try {
        work();
        return true;
    } catch (const Diverged&) {
    } catch (const distributed::scape::RefusedStep&) { // the optimizers' own words for the same
    } catch (const distributed::scape::Halted&) {
    } catch (const distributed::gasloc::Halted&) {
    }
    return false;
}

/// Points that were due after the run's early end have no loss.
void leave_empty(const Run& run, Curve& curve) {
    const std::uint64_t bytes = curve.points.empty() ? 0 : curve.points.back().bytes;
    for (std::size_t next = curve.points.size(); next < run.measured.size(); ++next)
        curve.points.push_back({run.measured[next], std::numeric_limits<double>::quiet_NaN(), bytes});
}

} // namespace

Curve train(const Text& text, const Plan& plan, const std::string& optimizer, std::uint64_t seed,
            const Watch& watch) {
    check(plan, text, {optimizer});
    Plan whole = plan;
    whole.shape.symbols = text.symbols;
    const peers::Choice choice = optimizer_of(optimizer, whole);
    Run run{text, whole, optimizer, seed, choice, measured_steps(whole, choice)};
    if (run.keeps()) {
        run.identity = identity_of(text, whole, optimizer, seed);
        if (!plan.processes)
            run.begun_with = load(checkpoint_path(plan.checkpoints, optimizer, seed), run.identity);
    }
    const auto ranks = static_cast<std::size_t>(plan.ranks);
    Checkpoint kept{0, {}, std::vector<std::uint64_t>(ranks), std::vector<peers::State>(ranks)};
    Curve curve{optimizer, seed, plan.learning_rate, {}};
    const auto work = [&](const peers::Links& links) {
        const bool first = links.all.rank() == 0;
        std::vector<Curve::Point> same;
        Rank(run, links, kept)
            .train(first ? watch : Watch(), first || plan.processes ? curve.points : same);
    };
    const auto on_threads = [&] { peers::run_linked(plan.ranks, work, patience); };
    // All processes get here together, so that each ends in good order.
    bool to_its_end = true;
    std::string refused;
    if (plan.processes)
        run_as_processes([&](const peers::Links& links) {
            if (run.keeps()) {
                SharedCheckpoint found = load_together(checkpoint_path(plan.checkpoints, optimizer, seed),
                                                       run.identity, links.all);
                run.begun_with = std::move(found.checkpoint);
                refused = std::move(found.refused);
            }
            if (refused.empty())
                to_its_end = comes_to_its_end([&] { work(links); });
        });
    else
        to_its_end = comes_to_its_end(on_threads);
    if (!refused.empty())
        throw AgreedError(refused);
    if (!to_its_end)
        leave_empty(run, curve);
    return curve;
}

} // namespace truestep::training
