// A real process saves checkpoints on the real disk and ends in place of its nth operation there,
// for every n: it leaves the last reported checkpoint or the next, complete.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "crash_support.hpp"
#include "wrapped_files.hpp"

namespace truestep::distributed::scape::crash {
namespace {

namespace fs = std::filesystem;

/// The steps that each child saves, one after the other; the last replaces the one before.
const std::vector<Index> saved_steps{1, 2, 2};
constexpr int ended = 3; // the status of a child that was ended
constexpr int run = 1;

/// Saves on the disk, and ends this process in place of its nth operation there; a write is half
/// done. `reported` counts the checkpoints that were reported as done before.
[[noreturn]] void end_at(int last, int workers, const fs::path& place, int& reported) {
    std::atomic<int> count{0};
    run_ranks(workers, [&](Communicator& communicator) {
        storage::WatchedFiles files(
            storage::disk(), [&](storage::OutputFile* file, std::span<const std::byte> bytes) {
                if (++count == last) {
                    std::error_code error;
                    if (file != nullptr)
                        static_cast<void>(file->write(bytes.first(bytes.size() / 2), error));
                    _exit(ended);
                }
                return std::error_code();
            });
        const auto optimizer = new_optimizer(communicator);
        for (const Index step : saved_steps) {
            take_steps(*optimizer, run, communicator.rank(), step);
            save_checkpoint(*optimizer, communicator, place, files);
            if (communicator.rank() == 0)
                ++reported;
        }
    });
    _exit(0);
}

/// A separate folder for each test, removed afterwards.
class EndedProcess : public testing::TestWithParam<int> {
  protected:
    void SetUp() override {
        std::string name = testing::TempDir() + "truestep_ended_XXXXXX";
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override { fs::remove_all(folder_); }

    fs::path folder_;
};

TEST_P(EndedProcess, AtAnyOperationLeavesTheLastGoodOne) {
    const int workers = GetParam();
    void* const shared =
        mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    int& reported = *new (shared) int{0};
    int operations = 0;
    for (bool to_its_end = false; !to_its_end;) {
        ++operations;
        SCOPED_TRACE("ended at operation " + std::to_string(operations));
        const fs::path place = folder_ / std::to_string(operations);
        reported = 0;
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0)
            end_at(operations, workers, place, reported);
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == ended || WEXITSTATUS(status) == 0))
            << status;
        to_its_end = WEXITSTATUS(status) == 0;

        const auto latest = latest_checkpoint(place);
        ASSERT_EQ(latest.has_value() || reported == 0, true);
        if (!latest)
            continue;
        run_ranks(workers, [&](Communicator& communicator) {
            const auto optimizer = new_optimizer(communicator);
            restore_checkpoint(*optimizer, communicator, *latest);
            // The last that was reported, or the one after it.
            const auto done = static_cast<std::size_t>(reported);
            EXPECT_TRUE((done > 0 && optimizer->steps() == saved_steps[done - 1]) ||
                        (done < saved_steps.size() && optimizer->steps() == saved_steps[done]))
                << optimizer->steps() << " of " << done;
            const auto through = new_optimizer(communicator);
            take_steps(*through, run, communicator.rank(), optimizer->steps());
            EXPECT_TRUE(same(optimizer->state(), through->state()));
            take_steps(*optimizer, run, communicator.rank(), 3);
            EXPECT_NO_THROW(save_checkpoint(*optimizer, communicator, place)) << "over what was left";
        });
        EXPECT_EQ(latest_checkpoint(place), place / "step-0000000003");
    }
    EXPECT_EQ(reported, std::ssize(saved_steps));
    EXPECT_GE(operations, 45);
    munmap(shared, sizeof(int));
}

INSTANTIATE_TEST_SUITE_P(Ranks, EndedProcess, testing::Values(1, 2));

} // namespace
} // namespace truestep::distributed::scape::crash
