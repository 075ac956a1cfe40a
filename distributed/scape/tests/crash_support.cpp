// Crashes SCAPE's checkpoint writers at every operation, and reads what remains.
#include "crash_support.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include <truestep/distributed/counting.hpp>
#include <truestep/problem/data.hpp>

namespace truestep::distributed::scape::crash {

namespace {

constexpr double learning_rate = 0.01;
constexpr int readers = 1; // otherwise threads would wait for one another tens of thousands of times
constexpr std::uint64_t seed = 11;

std::vector<float> gradient(int run, int rank, Index step) {
    std::vector<float> g;
    for (Index i = 0; i < model().size(); ++i)
        g.push_back(problem::gradient_value(problem::DataClass::normal, static_cast<std::uint64_t>(run) + 1,
                                            rank, step, i));
    return g;
}

std::string text(const Save& save) {
    return "step " + std::to_string(save.step) + " of run " + std::to_string(save.run);
}

} // namespace

const Layout& model() {
    static const Layout layout({{"w", 20, false}, {"norm", 3, true}});
    return layout;
}

truestep::Settings settings() {
    truestep::Settings result;
    result.density = DensitySchedule::geometric(0.5, 0.1, 3);
    return result;
}

std::unique_ptr<Optimizer> new_optimizer(Communicator& communicator) {
    const std::vector<float> parameters(static_cast<std::size_t>(model().size()), 1.0F);
    return make_optimizer(model(), settings(), communicator, parameters);
}

void take_steps(Optimizer& optimizer, int run, int rank, Index last) {
    while (optimizer.steps() < last)
        optimizer.step(gradient(run, rank, optimizer.steps() + 1), learning_rate);
}

bool same(const RankState& a, const RankState& b) {
    const auto words = [](const Mask& mask) {
        return std::vector(mask.words(), mask.words() + mask.word_count());
    };
    return a.step == b.step && a.parameters == b.parameters && a.residual == b.residual &&
           a.packed_moment == b.packed_moment && words(a.current) == words(b.current) &&
           words(a.coming) == words(b.coming);
}

std::unique_ptr<Files> write(const State& begin, const std::vector<Save>& saves, const Layer& layer,
                             std::size_t largest_write) {
    auto files = std::make_unique<Files>(begin, largest_write);
    run_ranks(saves.front().workers, [&](Communicator& communicator) {
        const int rank = communicator.rank();
        CountingCommunicator meeting(communicator);
        const auto meetings = [&] { return meeting.exchanges(Traffic::agreement); };
        const auto view = files->rank(rank, meetings);
        const auto layered = layer ? layer(*view) : nullptr;
        const auto optimizer = new_optimizer(communicator);
        for (std::size_t i = 0; i < saves.size(); ++i) {
            take_steps(*optimizer, saves[i].run, rank, saves[i].step);
            files->note(rank, "begun " + std::to_string(i), meetings());
            static_cast<void>(save_checkpoint(*optimizer, meeting, folder, layered ? *layered : *view));
            files->note(rank, "done " + std::to_string(i), meetings());
        }
    });
    return files;
}

namespace {

/// A cut of a run: the number of operations of each rank.
using Counts = std::vector<std::size_t>;

bool is_possible(const std::vector<std::vector<const Operation*>>& ranks, const Counts& counts) {
    std::uint64_t furthest = 0;
    std::uint64_t first_to_come = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        if (counts[rank] > 0)
            furthest = std::max(furthest, ranks[rank][counts[rank] - 1]->meetings);
        // Before its next operation it may have reached the meeting that precedes it.
        if (counts[rank] < ranks[rank].size())
            first_to_come = std::min(first_to_come, ranks[rank][counts[rank]]->meetings);
    }
    return furthest <= first_to_come;
}

std::string next_of(const std::vector<const Operation*>& operations, std::size_t count) {
    if (count == operations.size())
        return "rank " + std::to_string(operations.front()->rank) + ": its end";
    const auto number =
        1 + std::count_if(operations.begin(), operations.begin() + static_cast<std::ptrdiff_t>(count),
                          [](const Operation* done) { return done->kind != Operation::Kind::note; });
    return "operation " + std::to_string(number) + " of " + storage::memory::text(*operations[count]);
}

} // namespace

std::vector<Cut> cuts(const Files& files) {
    std::vector<std::vector<const Operation*>> ranks;
    for (const Operation& operation : files.operations()) {
        ranks.resize(std::max(ranks.size(), static_cast<std::size_t>(operation.rank) + 1));
        ranks[static_cast<std::size_t>(operation.rank)].push_back(&operation);
    }
    std::vector<Cut> result;
    const auto cut = [&](const Counts& counts) {
        Cut made{files.begin(), "", 0, 0};
        Counts done(ranks.size(), 0);
        for (const Operation& operation : files.operations()) {
            const auto rank = static_cast<std::size_t>(operation.rank);
            if (done[rank]++ >= counts[rank])
                continue;
            if (made.state.apply(operation))
                throw std::logic_error("cannot be done again: " + storage::memory::text(operation));
            if (operation.kind != Operation::Kind::note)
                continue;
            const std::size_t number = std::stoul(operation.path.substr(operation.path.find(' '))) + 1;
            auto& count = operation.path.starts_with("done") ? made.reported : made.begun;
            count = std::max(count, number);
        }
        for (std::size_t rank = 0; rank < ranks.size(); ++rank)
            made.ended_at += (rank == 0 ? "" : ", ") + next_of(ranks[rank], counts[rank]);
        result.push_back(std::move(made));
    };
    // Each rank's count runs from 0 to all, the last rank's fastest; impossible ones are skipped.
    Counts counts(ranks.size(), 0);
    while (true) {
        if (is_possible(ranks, counts))
            cut(counts);
        std::size_t at = ranks.size();
        while (at > 0 && counts[at - 1] == ranks[at - 1].size())
            counts[--at] = 0;
        if (at == 0)
            return result;
        ++counts[at - 1];
    }
}

Reader::Reader(const std::vector<Save>& known) {
    for (const Save& save : known) {
        const auto files = write(State({{"/home", std::nullopt}}), {save});
        std::optional<RankState>& state = expected_[save];
        run_ranks(readers, [&](Communicator& communicator) {
            const auto view = files->rank(communicator.rank());
            const auto optimizer = new_optimizer(communicator);
            restore_checkpoint(*optimizer, communicator, *latest_checkpoint(folder, *view), *view);
            state = optimizer->state();
        });
    }
}

void Reader::read(const std::vector<Tree>& trees) {
    std::vector<const Tree*> fresh;
    for (const Tree& tree : trees)
        if (const auto [place, is_new] = verdicts_.try_emplace(tree); is_new)
            fresh.push_back(&place->first);
    if (fresh.empty())
        return;
    std::vector<std::unique_ptr<Files>> disks;
    std::vector<bool> goes_on; // where names appear that were never seen before
    for (const Tree* tree : fresh) {
        disks.push_back(std::make_unique<Files>(State(*tree)));
        std::string all;
        for (const auto& [path, contents] : *tree)
            all += path + "\n";
        goes_on.push_back(names_.insert(all).second);
    }
    run_ranks(readers, [&](Communicator& communicator) {
        for (std::size_t i = 0; i < fresh.size(); ++i) {
            Verdict verdict;
            const auto view = disks[i]->rank(communicator.rank());
            const auto optimizer = new_optimizer(communicator);
            try {
                const auto latest = latest_checkpoint(folder, *view);
                if (latest) {
                    restore_checkpoint(*optimizer, communicator, *latest, *view);
                    const RankState state = optimizer->state();
                    for (const auto& [save, expected] : expected_)
                        if (same(state, *expected))
                            verdict.found = save;
                    if (!verdict.found)
                        verdict.error = "a state that no checkpoint holds";
                }
                // The run continues from whatever was left, saves, and finds what it saved.
                if (goes_on[i]) {
                    take_steps(*optimizer, 0, communicator.rank(), optimizer->steps() + 1);
                    const auto next = save_checkpoint(*optimizer, communicator, folder, *view);
                    if (latest_checkpoint(folder, *view) != next)
                        verdict.error += "; the next checkpoint is not found";
                }
            } catch (const Error& error) {
                verdict.error = error.what();
            }
            verdicts_.at(*fresh[i]) = verdict;
        }
    });
}

void end_everywhere(Tally& tally, Reader& reader, const Files& files, const std::vector<Save>& saves,
                    const History& history) {
    std::vector<Save> order = history.begun;
    order.insert(order.end(), saves.begin(), saves.end());
    const std::size_t before = history.begun.size();
    for (const Cut& cut : cuts(files)) {
        if (!tally.finding.empty())
            return;
        ++tally.cuts;
        const std::vector<Tree> trees = cut.state.outcomes(seed + tally.cuts);
        tally.outcomes += trees.size();
        reader.read(trees);
        // From the last that was reported as done to the last that was begun; 0 is none.
        const std::size_t first = cut.reported > 0 ? before + cut.reported : history.reported;
        const std::size_t last = before + cut.begun;
        for (const Tree& tree : trees) {
            const Reader::Verdict& verdict = reader.verdict(tree);
            const auto found =
                verdict.found
                    ? static_cast<std::size_t>(std::ranges::find(order, *verdict.found) - order.begin()) + 1
                    : 0;
            if ((verdict.error.empty() && found >= first && found <= last) || !tally.finding.empty())
                continue;
            const std::string what = !verdict.error.empty() ? verdict.error
                                     : verdict.found        ? "found " + text(*verdict.found)
                                                            : "found no checkpoint";
            tally.finding = "ended before " + cut.ended_at + ": " + what + "; " +
                            (first > 0 ? text(order[first - 1]) : "nothing") + " was reported as done";
        }
    }
}

} // namespace truestep::distributed::scape::crash
