// Tests which number on its machine a rank gets from launchers' variables, or else by counting.
#include <truestep/gpu/local_rank.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::gpu {
namespace {

using Variables = std::map<std::string, std::string>;

int told(const Variables& variables) {
    return told_by_launcher([&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    });
}

TEST(LocalRank, LaunchersAreAskedInTheirOrder) {
    const std::vector<std::string> order{"SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                         "PMI_LOCAL_RANK", "LOCAL_RANK"};
    Variables set{{"RANK", "9"}};
    EXPECT_EQ(told(set), HostLocation::nothing);
    for (std::size_t i = order.size(); i-- > 0;) { // each before those that are set already
        set[order[i]] = std::to_string(10 + i);
        EXPECT_EQ(told(set), static_cast<int>(10 + i)) << order[i];
    }
}

TEST(LocalRank, WhatIsNoNumberIsRefused) {
    for (const char* const text : {"", "x", "1x", " 1", "-1", "99999999999"})
        EXPECT_THROW((void)told({{"LOCAL_RANK", text}}), Error) << text;
    EXPECT_THAT(
        [] {
            (void)told({{"MPI_LOCALRANKID", "two"}});
        },
        testing::ThrowsMessage<Error>("MPI_LOCALRANKID is 'two'; it must be a local rank of at "
                                      "least 0; correct or unset it"));
}

/// The local ranks, given each rank's machine and the number from its launcher.
std::vector<int> local_ranks(const std::vector<std::pair<std::string, int>>& lodgings) {
    std::vector<HostLocation> all;
    for (const auto& [machine, said] : lodgings) {
        all.push_back({.told = said});
        std::ranges::copy(machine, all.back().machine.begin());
    }
    std::vector<int> result;
    for (std::size_t rank = 0; rank < all.size(); ++rank)
        result.push_back(local_rank(all, static_cast<int>(rank)));
    return result;
}

using Ranks = std::vector<int>;

TEST(LocalRank, IsWhatTheLauncherSays) {
    EXPECT_EQ(local_ranks({{"a", 1}, {"a", 0}, {"b", 1}, {"b", 0}}), (Ranks{1, 0, 1, 0}));
    EXPECT_EQ(local_ranks({{"a", 6}}), Ranks{6}) << "others of the job run there, too";
}

/// Two devices each: rank modulo devices would give ranks 0 and 2 of machine a the same one.
TEST(LocalRank, RanksDealtOutInTurnAreCountedOnTheirMachine) {
    const int none = HostLocation::nothing;
    EXPECT_EQ(local_ranks({{"a", none}, {"b", none}, {"a", none}, {"b", none}}), (Ranks{0, 0, 1, 1}));
    EXPECT_EQ(local_ranks({{"a", 0}, {"b", 0}, {"a", 1}, {"b", 1}}), (Ranks{0, 0, 1, 1}));
}

TEST(LocalRank, WhatTwoOfAMachineWereToldIsNothingToGoBy) {
    EXPECT_EQ(local_ranks({{"a", 3}, {"a", 3}, {"a", 3}}), (Ranks{0, 1, 2}));
    EXPECT_EQ(local_ranks({{"a", 2}, {"a", HostLocation::nothing}, {"b", 5}}), (Ranks{0, 1, 5}));
}

TEST(LocalRank, ThreadsAreCounted) {
    std::vector<int> seen(4);
    distributed::run_ranks(4, [&](distributed::Communicator& ranks) {
        seen[static_cast<std::size_t>(ranks.rank())] = local_rank(ranks);
    });
    EXPECT_EQ(seen, (Ranks{0, 1, 2, 3}));
    seen.assign(4, 0);
    distributed::run_peers(4, [&](distributed::Peers& ranks) {
        seen[static_cast<std::size_t>(ranks.rank())] = local_rank(ranks);
    });
    EXPECT_EQ(seen, (Ranks{0, 1, 2, 3}));
}

} // namespace
} // namespace truestep::gpu
