// Ends writers of checkpoints at every operation, with what a power failure may leave of unsynced
// data: the last checkpoint that was reported as done, or one that was begun after it, is found
// complete.
#include <iostream>

#include <gtest/gtest.h>

#include "crash_support.hpp"
#include "planted_writers.hpp"
#include "wrapped_files.hpp"

namespace truestep::distributed::scape::crash {
namespace {

const Tree nothing{{"/home", std::nullopt}};

/// A run, then another from the beginning that replaces its last checkpoint, with another number of
/// ranks.
const std::vector<Save> first_run{{1, 2, 1}, {1, 2, 2}};
const std::vector<Save> second_run{{2, 3, 2}};
/// Each replaces the one before.
const std::vector<Save> replaced{{1, 1, 2}, {2, 1, 2}, {3, 1, 2}};

std::vector<Save> all_of(std::vector<Save> saves, const std::vector<Save>& more) {
    saves.insert(saves.end(), more.begin(), more.end());
    return saves;
}

/// The machine fails while one run writes, or another after it.
Tally two_runs(Reader& reader, const std::vector<Save>& first, const std::vector<Save>& second,
               const Layer& layer = {}, std::size_t largest_write = SIZE_MAX) {
    Tally tally;
    const auto files = write(State(nothing), first, layer, largest_write);
    end_everywhere(tally, reader, *files, first);
    if (tally.finding.empty()) {
        const auto more = write(files->state(), second, layer, largest_write);
        end_everywhere(tally, reader, *more, second, {first, first.size()});
    }
    return tally;
}

/// A process is killed while it replaces a checkpoint; another replaces it again, and then the
/// machine fails.
Tally killed_before(Reader& reader, const Layer& layer = {}) {
    Tally tally;
    const auto old = write(State(nothing), {replaced[0]}, layer);
    const auto killed = write(old->state(), {replaced[1]}, layer);
    for (const Cut& cut : cuts(*killed)) {
        const auto files = write(cut.state, {replaced[2]}, layer);
        end_everywhere(tally, reader, *files, {replaced[2]},
                       {{replaced[0], replaced[1]}, 1 + cut.reported});
        if (!tally.finding.empty()) {
            tally.finding = "killed before " + cut.ended_at + ", the next " + tally.finding;
            break;
        }
    }
    return tally;
}

void tell(const std::string& what, const Tally& tally, const Reader& reader) {
    std::cout << what << ": " << tally.cuts << " places to end, " << tally.outcomes << " outcomes, "
              << reader.trees() << " different ones read\n";
}

TEST(Crash, OfTheMachineLeavesTheLastGoodCheckpoint) {
    Reader reader(all_of(first_run, second_run));
    const Tally tally = two_runs(reader, first_run, second_run);
    EXPECT_EQ(tally.finding, "");
    EXPECT_GE(tally.cuts, 300U);
    EXPECT_GE(reader.trees(), 300U);
    tell("two runs", tally, reader);
}

TEST(Crash, WithShortWritesToo) {
    Reader reader({replaced[0], replaced[1]});
    const Tally tally = two_runs(reader, {replaced[0]}, {replaced[1]}, {}, 100);
    EXPECT_EQ(tally.finding, "");
    tell("short writes", tally, reader);
}

TEST(Crash, OfAProcessAndThenOfTheMachineLeavesTheLastGoodCheckpoint) {
    Reader reader(replaced);
    const Tally tally = killed_before(reader);
    EXPECT_EQ(tally.finding, "");
    EXPECT_GE(tally.cuts, 300U);
    tell("killed before", tally, reader);
}

TEST(Crash, EveryPlantedMistakeIsFound) {
    const std::vector<Save> first{{1, 2, 1}};
    const std::vector<Save> second{{2, 2, 1}};
    Reader reader(all_of(all_of(first, second), replaced));
    for (const Planted& planted : planted_writers()) {
        Tally tally = two_runs(reader, first, second, planted.layer, planted.largest_write);
        if (tally.finding.empty())
            tally = killed_before(reader, planted.layer);
        EXPECT_NE(tally.finding.find(planted.found_at), std::string::npos)
            << planted.name << ": expected at " << planted.found_at << ", not " << tally.finding;
        std::cout << planted.name << ": " << tally.finding << "\n";
    }
}

/// A failing operation is reported on all ranks, and nothing existing is lost.
TEST(Crash, AnOperationThatFailsIsToldOnAllRanks) {
    const auto begin = write(State(nothing), {{1, 2, 1}});
    for (const int failing_rank : {0, 1}) {
        int told = 0;
        int unnoticed = 0;
        bool failed = true;
        for (int at = 1; failed; ++at) {
            failed = false;
            Files files(begin->state());
            run_ranks(2, [&](Communicator& communicator) {
                const int rank = communicator.rank();
                const auto view = files.rank(rank);
                int count = 0;
                storage::WatchedFiles failing(*view, [&](storage::OutputFile*, std::span<const std::byte>) {
                    if (rank != failing_rank || ++count != at)
                        return std::error_code();
                    failed = true;
                    return std::make_error_code(std::errc::no_space_on_device);
                });
                const auto optimizer = new_optimizer(communicator);
                take_steps(*optimizer, 2, rank, 1); // replaces it
                std::string message;
                try {
                    static_cast<void>(save_checkpoint(*optimizer, communicator, folder, failing));
                } catch (const Error& error) {
                    message = error.what();
                    EXPECT_EQ(message.find('\n'), std::string::npos);
                    EXPECT_NE(message.find(folder), std::string::npos) << message;
                    EXPECT_NE(message.find("No space left on device"), std::string::npos) << message;
                }
                EXPECT_EQ(gather_records(communicator, int{message.empty()})[0], int{message.empty()});
                const RankState now = optimizer->state();
                restore_checkpoint(*optimizer, communicator, *latest_checkpoint(folder, *view), *view);
                EXPECT_EQ(optimizer->steps(), 1);
                if (message.empty()) {
                    EXPECT_TRUE(same(optimizer->state(), now));
                }
                if (rank == 0)
                    ++(message.empty() ? unnoticed : told);
                take_steps(*optimizer, 2, rank, 2);
                const auto next = save_checkpoint(*optimizer, communicator, folder, *view);
                EXPECT_EQ(latest_checkpoint(folder, *view), next);
            });
        }
        EXPECT_GE(told, failing_rank == 0 ? 15 : 8);
        // The removals of what was replaced, and the operation that never comes.
        EXPECT_LE(unnoticed, failing_rank == 0 ? 8 : 1);
    }
}

} // namespace
} // namespace truestep::distributed::scape::crash
