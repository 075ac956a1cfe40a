// Tests that hanging, leaving or misusing ranks are named when ranks are threads.
#include <truestep/distributed/in_process.hpp>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <truestep/problem/timeline.hpp>

#include "exchanges.hpp"

namespace truestep::distributed {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using namespace std::chrono_literals;

/// Runs a rank and returns the text of its Aborted, or "".
std::string told(const std::function<void()>& way) {
    try {
        way();
    } catch (const Aborted& error) {
        return error.what();
    }
    return "";
}

/// Rank 0 waits in one exchange and the others in the next. What must come before a deadline comes
/// before any wait. Only chance ensures that rank 0 waits by then; if it does not, it is late as
/// well. In the scenario `hangs_between` (docs/schedules.md), whose time stands still, rank 2 alone
/// is named.
TEST(InProcessFaults, AHangingRankIsNamed) {
    std::latch hanging_one_has_its_mask(1); // before the others: the last one would take it at once
    std::latch all_have_masks(3);
    std::latch others_have_all(3);
    std::latch others_are_told(3);
    const auto step = [&](Communicator& communicator) {
        if (communicator.rank() == 2) {
            const AllGather mask(communicator, 0, true);
            hanging_one_has_its_mask.count_down();
            others_are_told.wait();
            return;
        }
        hanging_one_has_its_mask.wait();
        AllGather mask(communicator, 0, true);
        all_have_masks.arrive_and_wait();
        communicator.progress(); // takes it: of the mask only rank 2 is late
        std::optional<AllToAll> payload;
        if (communicator.rank() != 0)
            payload.emplace(communicator, 0);
        others_have_all.arrive_and_wait();
        const std::string end = told([&] {
            if (communicator.rank() == 0)
                mask.wait(); // waits until rank 2 takes it
            else
                payload->wait();
        });
        others_are_told.count_down();
        EXPECT_THAT(end, AnyOf("rank 2 did not answer within 0.2 s in a mask exchange",
                               "rank 2 did not answer within 0.2 s in a payload exchange",
                               "ranks 0 and 2 did not answer within 0.2 s in a payload exchange"));
        throw Aborted(end);
    };
    EXPECT_THROW(run_ranks(4, step, 200ms), Aborted);
}

/// All have come to the last exchange, but the others' parts stay where they are until rank 1 takes them.
/// It has taken its own of exchanges before, whose meeting is used again.
TEST(InProcessFaults, ARankThatComesAndTakesNothingIsNamed) {
    std::latch it_has_come(1);
    std::latch others_are_told(2);
    const auto step = [&](Communicator& communicator) {
        for (std::size_t before = 0; before < 3; ++before)
            AllGather(communicator, before, true).wait();
        if (communicator.rank() == 1) {
            const AllGather mask(communicator, 0, true);
            it_has_come.count_down();
            others_are_told.wait();
            return;
        }
        it_has_come.wait();
        AllGather mask(communicator, 0, true);
        const std::string end = told([&] { mask.wait(); });
        others_are_told.count_down();
        EXPECT_EQ(end, "rank 1 did not answer within 0.1 s in a mask exchange");
        throw Aborted(end);
    };
    EXPECT_THROW(run_ranks(3, step, 100ms), Aborted);
}

TEST(InProcessFaults, AllHangingRanksAreNamed) {
    std::latch others_have_come(3);
    std::latch others_are_told(3);
    const auto step = [&](Communicator& communicator) {
        if (communicator.rank() % 2 == 1) {
            others_are_told.wait();
            return;
        }
        AllGather exchange(communicator, 1, true, Traffic::agreement);
        others_have_come.arrive_and_wait(); // before any rank times out
        const std::string end = told([&] { exchange.wait(); });
        others_are_told.count_down();
        EXPECT_EQ(end, "ranks 1, 3 and 5 did not answer within 0.1 s in an agreement exchange");
        throw Aborted(end);
    };
    EXPECT_THROW(run_ranks(6, step, 100ms), Aborted);
}

/// The report of a timeout says of each rank what it waits for, since when and for whom.
TEST(InProcessFaults, ATimeoutShowsWhatEachRankWaitsFor) {
    const auto path = std::filesystem::temp_directory_path() / "truestep_in_process_faults_test.json";
    problem::Timeline::start(path);
    std::latch others_are_told(2);
    const auto step = [&](Communicator& communicator) {
        AllGather(communicator, 0, true).wait();
        if (communicator.rank() == 1) {
            others_are_told.wait();
            return;
        }
        AllToAll exchange(communicator, 1);
        const std::string end = told([&] { exchange.wait(); });
        others_are_told.count_down();
        throw Aborted(end);
    };
    testing::internal::CaptureStderr();
    EXPECT_THROW(run_ranks(3, step, 300ms), Aborted);
    const std::string report = testing::internal::GetCapturedStderr();
    problem::Timeline::write();
    std::filesystem::remove(path);
    for (const char* rank : {"0", "2"})
        EXPECT_THAT(report, ContainsRegex("  rank " + std::string(rank) +
                                          " has waited 0.[0-9] s for rank 1 in a payload exchange "
                                          "\\(number 1\\)\n    mask: for 0.0[0-9]+ s, ended 0.[0-9]+ s "
                                          "ago\n    payload: for 0.[0-9]+ s until now\n"));
    EXPECT_THAT(report, ContainsRegex("  rank 1 does not wait: its last wait, in a mask exchange \\(number "
                                      "0\\), began 0.[0-9] s ago\n    mask: "));
}

TEST(InProcessFaults, ARankThatHasLeftIsNamedAtOnce) {
    const auto step = [](Communicator& communicator) {
        if (communicator.rank() != 1)
            AllToAll(communicator, 0).wait();
    };
    EXPECT_THAT([&] { run_ranks(3, step); },
                ThrowsMessage<Aborted>("rank 1 left before a payload exchange"));
}

TEST(InProcessFaults, ALostExchangeIsABug) {
    const auto step = [](Communicator& communicator) {
        auto mask = std::make_unique<AllGather>(communicator, 0, true);
        if (communicator.rank() != 0)
            mask->wait();
        mask.reset();
        AllToAll(communicator, 1).wait();
    };
    EXPECT_THAT([&] { run_ranks(3, step); },
                ThrowsMessage<Aborted>("rank 0: a mask exchange was never waited for"));
}

TEST(InProcessFaults, OtherExchangesOrSizesAreRefused) {
    const auto mixed = [](Communicator& communicator) {
        if (communicator.rank() == 0)
            AllToAll(communicator, 0).wait();
        else
            AllGather(communicator, 0, true).wait();
    };
    EXPECT_THAT([&] { run_ranks(2, mixed); },
                ThrowsMessage<Aborted>(AllOf(HasSubstr("a payload exchange (all-to-all)"),
                                             HasSubstr("a mask exchange (all-gather)"))));
    const auto uneven = [](Communicator& communicator) {
        std::vector<std::byte> receive(64);
        const std::vector<std::size_t> sizes(2, communicator.rank() == 0 ? 4 : 8);
        communicator.start_all_gather(Traffic::mask, receive.data(), receive.data(), sizes)->wait();
    };
    EXPECT_THAT([&] { run_ranks(2, uneven); },
                ThrowsMessage<Aborted>(
                    AllOf(HasSubstr("sends"), HasSubstr("awaits"), HasSubstr("a mask exchange"))));
    // Between two ranks alone, neither of them the first.
    for (const std::size_t other : {std::size_t{4}, std::size_t{12}}) {
        const auto uneven_pair = [other](Communicator& communicator) {
            const std::vector<std::size_t> awaited(3, 8);
            std::vector<std::size_t> sent = awaited;
            if (communicator.rank() == 2)
                sent[1] = other;
            const std::vector<std::byte> send(28);
            std::vector<std::byte> receive(24);
            communicator.start_all_to_all(Traffic::payload, send.data(), sent, receive.data(), awaited)
                ->wait();
        };
        EXPECT_THAT([&] { run_ranks(3, uneven_pair); },
                    ThrowsMessage<Aborted>("rank 2 sends " + std::to_string(other) +
                                           " bytes in a payload exchange where rank 1 awaits 8"));
    }
}

/// The peers of a rank that fails may be copying from its buffers at that very moment.
TEST(InProcessFaults, FailuresAtAnyMomentLeaveNoReaderBehind) {
    for (std::size_t round = 0; round < 200; ++round) {
        const auto step = [round](Communicator& communicator) {
            const std::vector<std::size_t> sizes(as_size(communicator.size()), 20'000);
            const std::vector<std::byte> send(sizes.size() * 20'000, std::byte{1});
            std::vector<std::byte> receive(send.size());
            for (std::size_t exchange = 0; exchange < 3; ++exchange) {
                const auto pending = communicator.start_all_to_all(Traffic::payload, send.data(), sizes,
                                                                   receive.data(), sizes);
                if (exchange == 1 && communicator.rank() == static_cast<int>(round % sizes.size()))
                    throw std::runtime_error("failed");
                pending->wait();
            }
        };
        EXPECT_THROW(run_ranks(3, step), std::runtime_error);
    }
}

TEST(InProcessFaults, WrongUseIsRefused) {
    EXPECT_THROW(InProcessGroup(0), std::invalid_argument);
    InProcessGroup group(2);
    EXPECT_THROW((void)group.communicator(2), std::invalid_argument);
    const auto communicator = group.communicator(0);
    EXPECT_THROW((void)group.communicator(0), std::logic_error);
    std::vector<std::byte> bytes(8);
    const std::vector<std::size_t> sizes(3, 1);
    EXPECT_THROW((void)communicator->start_all_gather(Traffic::mask, bytes.data(), bytes.data(), sizes),
                 std::invalid_argument);
}

} // namespace
} // namespace truestep::distributed
