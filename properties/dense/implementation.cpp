// Runs an implementation of dense training on the ranks of a group, and records each step.
#include "implementation.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <system_error>

#include <truestep/distributed/counting.hpp>
#include <truestep/distributed/dense/checkpoint.hpp>
#include <truestep/gate/leftovers.hpp>
#include <truestep/gate/lender.hpp>
#include <truestep/gate/record.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::properties::dense {

namespace {

namespace fs = std::filesystem;
using distributed::Traffic;

/// How messages are disturbed under a case's number, on all ranks alike.
distributed::Disturbance disturbance(Index late) {
    distributed::Disturbance result;
    for (const Traffic traffic : {Traffic::gradient, Traffic::parameters}) {
        const auto kind = static_cast<std::size_t>(traffic);
        result.late_start[kind] = static_cast<unsigned>(late % 3);
        result.hold_back[kind] = late % 2 == 1;
    }
    result.newest_first = late == 3;
    return result;
}

class WorkerUnderTest final : public RankUnderTest {
  public:
    WorkerUnderTest(const Beginning& beginning, distributed::Communicator& ranks,
                    std::unique_ptr<distributed::dense::Backend> backend)
        : problem_(beginning.problem), options_{beginning.threads, beginning.sharded}, rank_(ranks.rank()),
          worker_(make(beginning, ranks, std::move(backend))) {}

    // Sharded ranks lend the last micro-batch, others have it copied.
    void add(std::span<const float> gradient) override {
        const auto add = [this](std::span<const float> lent) { worker_->add(lent); };
        if (!last_.empty())
            lender_.lend_after_too_many(last_, add);
        last_.assign(gradient.begin(), gradient.end());
        if (!options_.sharded)
            lender_.lend_after_too_many(std::exchange(last_, {}), add);
    }
    bool step(const std::vector<double>& rates) override {
        try {
            return lender_.lend(std::exchange(last_, {}),
                                [&](std::span<const float> lent) { return worker_->step(lent, rates); });
        } catch (const distributed::dense::Halted& halted) {
            throw Halted(halted.what());
        }
    }
    Floats parameters() const override {
        return {worker_->parameters().begin(), worker_->parameters().end()};
    }
    Shard shard() const override {
        const distributed::dense::State& state = worker_->state();
        Shard shard{state.steps, {}, state.w, state.m, state.v};
        for (const distributed::dense::Piece& piece : worker_->ownership().pieces(rank_))
            shard.pieces.push_back({piece.begin, piece.end});
        return shard;
    }
    void save(const fs::path& folder) const override {
        distributed::dense::save(folder, problem_, options_, worker_->state(), rank_);
        if (rank_ == 0)
            gate::add_what_is_no_checkpoint(folder, "step", "rank");
    }

  private:
    std::unique_ptr<distributed::dense::Worker> make(const Beginning& beginning,
                                                     distributed::Communicator& ranks,
                                                     std::unique_ptr<distributed::dense::Backend> backend) {
        using distributed::dense::Worker;
        try {
            if (beginning.folder.empty())
                return std::make_unique<Worker>(problem_, beginning.parameters, ranks, options_,
                                                std::move(backend));
            const auto checkpoint = distributed::dense::latest(beginning.folder);
            if (!checkpoint)
                throw Error(beginning.folder.string() + ": there is no checkpoint; save one first");
            auto state = distributed::dense::load(*checkpoint, problem_, options_, rank_);
            if (beginning.spoiled && !state.m.empty())
                state.m.back() = std::numeric_limits<float>::infinity();
            return std::make_unique<Worker>(problem_, std::move(state), ranks, options_,
                                            std::move(backend));
        } catch (const distributed::dense::Halted& halted) {
            throw Halted(halted.what());
        }
    }

    Problem problem_;
    distributed::dense::Options options_;
    int rank_;
    Floats last_; ///< the micro-batch that was added last
    gate::Lender lender_;
    std::unique_ptr<distributed::dense::Worker> worker_;
};

/// The files of a checkpoint, one a rank, in the ranks' order.
std::vector<fs::path> files_in(const fs::path& folder, const fs::path& excluded = {}) {
    std::vector<fs::path> files;
    std::error_code ignored;
    for (fs::recursive_directory_iterator at(folder, ignored), end; at != end; ++at)
        if (at->path() == excluded)
            at.disable_recursion_pending();
        else if (at->is_regular_file())
            files.push_back(at->path());
    std::ranges::sort(files);
    return files;
}

} // namespace

Begin workers(MakeBackend backend) {
    return [backend = std::move(backend)](const Beginning& beginning, distributed::Communicator& ranks) {
        return std::make_unique<WorkerUnderTest>(beginning, ranks,
                                                 backend(ranks.rank(), beginning.threads));
    };
}

GroupImplementation::GroupImplementation(std::string name, Begin begin,
                                         std::shared_ptr<const gate::Group> group,
                                         gate::Placement placement)
    : gate::GroupImplementation<Implementation>(std::move(name), std::move(group), std::move(placement)),
      begin_(std::move(begin)) {}

std::vector<RankRecord> GroupImplementation::run(const Scenario& scenario) const {
    std::vector<RankRecord> records(static_cast<std::size_t>(scenario.most_ranks()));
    const bool restarts = scenario.restart > 0 && scenario.restart < scenario.steps;
    // Only a run that restarts has files.
    const fs::path folder =
        restarts ? fs::path(gate::scratch_folder(group())) / ("dense-" + std::to_string(++runs_))
                 : fs::path();
    // From and to where a rank restores and saves, and whether it is recorded.
    using Places = std::function<fs::path(int rank)>;
    const auto part = [&](int ranks, Index first, Index last, const Places& from, const Places& to,
                          bool is_recorded = true) {
        group().run(ranks, [&](distributed::Communicator& communicator) {
            const int rank = communicator.rank();
            RankRecord unrecorded;
            play(scenario, first, last, from(rank), to(rank), communicator,
                 is_recorded ? records[static_cast<std::size_t>(rank)] : unrecorded);
        });
    };
    const auto nowhere = [](int) { return fs::path(); };
    const fs::path earlier = folder / "earlier";
    part(scenario.problem.ranks, 1, restarts ? scenario.restart : scenario.steps, nowhere,
         [&](int) { return fs::path(folder); });
    if (restarts && scenario.strange_rank >= 0 && !scenario.is_older)
        part(
            scenario.problem.ranks, 1, scenario.restart, nowhere,
            [&](int rank) { return rank == scenario.strange_rank ? folder : fs::path(); }, false);
    if (restarts && scenario.is_older && !group().any(false) && group().speaks()) { // all have saved
        const auto of = static_cast<std::size_t>(scenario.strange_rank);
        const std::vector<fs::path> older = files_in(earlier);
        const std::vector<fs::path> newer = files_in(folder, earlier);
        if (older.size() == newer.size() && of < older.size()) // else the run has failed
            fs::copy_file(older[of], newer[of], fs::copy_options::overwrite_existing);
    }
    if (restarts && scenario.stale_rank >= 0)
        part(
            scenario.problem.ranks, 1, scenario.restart - 1, nowhere,
            [&](int) { return fs::path(earlier); }, false);
    bool ended = false;
    for (const RankRecord& record : records)
        ended = ended || !record.ended.empty();
    if (restarts && !group().any(ended))
        part(
            scenario.after.ranks, scenario.restart + 1, scenario.steps,
            [&](int rank) { return rank == scenario.stale_rank ? earlier : folder; }, nowhere);
    std::vector<RankRecord> all = gate::exchange_records(group(), records);
    if (restarts && group().speaks()) {
        std::error_code ignored;
        fs::remove_all(folder, ignored);
    }
    return all;
}

void GroupImplementation::play(const Scenario& scenario, Index first, Index last, const fs::path& from,
                               const fs::path& to, distributed::Communicator& ranks,
                               RankRecord& record) const {
    const int rank = ranks.rank();
    distributed::CountingCommunicator counted(ranks, disturbance(scenario.late));
    const Problem& problem = scenario.at(first);
    const Index begin = first_micro_batch(problem, rank);
    std::unique_ptr<RankUnderTest> subject;
    const auto seen = [&](bool refused) {
        StepRecord step{subject->parameters(), subject->shard(), static_cast<std::uint8_t>(refused ? 1 : 0),
                        counted.bytes(Traffic::gradient), counted.bytes(Traffic::parameters)};
        counted.reset();
        return step;
    };
    try {
        Beginning beginning{problem, scenario.start, from,
                            from.empty() ? scenario.sharded : scenario.sharded_after, scenario.threads};
        scenario.change(rank, beginning);
        subject = begin_(beginning, counted);
        (first == 1 ? record.steps : record.restarted)[first - 1] = seen(false);
        for (Index step = first; step <= last; ++step) {
            if (scenario.is_older && step == last && !to.empty())
                subject->save(to / "earlier");
            if (rank == scenario.failing_rank && step == scenario.failing_step)
                counted.lose_link_after(static_cast<std::uint64_t>(scenario.exchanges));
            const int micro_batches = problem.micro_batches[static_cast<std::size_t>(rank)];
            const bool odd = rank == scenario.odd_rank;
            const bool lacks = odd && scenario.odd_rate == 0.0;
            for (Index micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
                if (step == scenario.odd_step && micro_batch + 1 == micro_batches) {
                    if (!lacks)
                        subject->add(scenario.gradient(problem, begin + micro_batch, step));
                    std::vector<double> rates = scenario.rates(step);
                    rates.back() += odd ? scenario.odd_rate : 0.0;
                    try {
                        subject->step(rates);
                    } catch (const Error& error) {
                        record.tried = error.what();
                    }
                    if (!lacks)
                        continue;
                }
                subject->add(scenario.gradient(problem, begin + micro_batch, step));
            }
            const bool taken = subject->step(scenario.rates(step));
            record.steps[step] = seen(!taken);
        }
        if (!to.empty())
            subject->save(to);
    } catch (const Error& error) {
        record.ended = error.what(); // it leaves: ranks that still wait for it are aborted
    } catch (const Halted& halted) {
        record.ended = halted.what();
        record.halted = 1;
    } catch (const distributed::LinkLost& lost) {
        record.ended = lost.what();
        record.failed = 1;
    } catch (const distributed::Aborted& aborted) {
        record.ended = aborted.what();
    }
}

} // namespace truestep::properties::dense
