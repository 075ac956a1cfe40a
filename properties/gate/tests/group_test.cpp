#include <truestep/gate/group.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <latch>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/distributed/counting_peers.hpp>
#include <truestep/gate/record.hpp>

// Ranks that send each other messages, as the gate runs them.

namespace truestep::gate {
namespace {

using namespace std::chrono_literals;
using distributed::CountingPeers;
using distributed::PeerDisturbance;
using distributed::Peers;
using distributed::Traffic;
using ::testing::ThrowsMessage;

/// Sends its own rank to the next, and returns what comes from the one before.
int from_the_one_before(Peers& peers) {
    const int next = (peers.rank() + 1) % peers.size();
    const int previous = (peers.rank() + peers.size() - 1) % peers.size();
    peers.send(Traffic::parameters, next, 1, std::make_shared<int>(peers.rank()), sizeof(int));
    const auto incoming = peers.receive(Traffic::parameters, previous, 1, sizeof(int));
    return *reinterpret_cast<const int*>(incoming->wait(sizeof(int)));
}

TEST(ThreadGroup, RunsPeersAndWhatDisturbsThem) {
    const auto group = make_thread_group(10s);
    group->run_peers(4, [](Peers& ranks) {
        PeerDisturbance disturbance;
        disturbance.late_start.fill(3);
        disturbance.hold_back.fill(true);
        CountingPeers peers(ranks, disturbance);
        EXPECT_EQ(from_the_one_before(peers), (peers.rank() + 3) % 4);
        EXPECT_EQ(peers.sent_to((peers.rank() + 1) % 4), (CountingPeers::Sent{1, sizeof(int)}));
    });
}

TEST(ThreadGroup, TheCauseComesOut) {
    const auto group = make_thread_group(10s);
    const auto fails = [](Peers& peers) {
        if (peers.rank() == 2)
            throw std::out_of_range("on purpose");
        (void)from_the_one_before(peers);
    };
    EXPECT_THAT([&] { group->run_peers(4, fails); }, ThrowsMessage<std::out_of_range>("on purpose"));
}

class NoPeers final : public Group {
  public:
    [[nodiscard]] std::string name() const override { return "strangers"; }
    [[nodiscard]] bool takes(int /*workers*/) const override { return true; }
    void run(int /*workers*/, const Work& /*work*/) const override {}
    [[nodiscard]] std::vector<Bytes> exchange(int /*workers*/,
                                              const std::function<Bytes(int)>& /*mine*/) const override {
        return {};
    }
};

TEST(AnyGroup, SaysSoIfItHasNoPeers) {
    EXPECT_THAT([&] { NoPeers().run_peers(2, [](Peers&) {}); },
                ThrowsMessage<std::logic_error>("the ranks of strangers send no messages to peers"));
}

struct Round {
    std::vector<float> parameters;
    std::optional<int> told;

    void fields(auto& visit) { visit(parameters, told); }
    friend bool operator==(const Round&, const Round&) = default;
};

/// One member for each kind of value that a record holds.
struct EveryKind {
    bool ended = false;
    std::string reason;
    std::vector<Round> rounds;
    std::map<std::string, Round> named;

    void fields(auto& visit) { visit(ended, reason, rounds, named); }
    friend bool operator==(const EveryKind&, const EveryKind&) = default;
};

TEST(Records, ComeBackAsTheyWereExchanged) {
    const std::vector<EveryKind> mine{
        {}, {true, "halted", {{{1.0F, -0.0F}, 7}, {{}, {}}}, {{"first", {{2.0F}, 8}}, {"last", {}}}}};
    EXPECT_EQ(exchange_records(*make_thread_group(10s), mine), mine);
}

TEST(Records, OneThatIsTooShortIsNotRead) {
    const Group::Bytes whole = packed(EveryKind{true, "halted", {{{1.0F}, 7}}, {}});
    for (auto end = whole.begin(); end != whole.end(); ++end)
        EXPECT_THROW(static_cast<void>(unpacked<EveryKind>({whole.begin(), end})), std::logic_error);
}

// Small problems are enumerated by independent threads. A thread sanitizer detects each race, most of all
// in the folders' names.
TEST(Scratch, IsMadeOnceByAllThreadsThatAskFirst) {
    constexpr std::size_t threads = 16;
    const auto group = make_thread_group(10s);
    std::latch all_are_here(threads);
    std::array<std::string, threads> folders;
    {
        std::vector<std::jthread> askers;
        for (std::string& folder : folders)
            askers.emplace_back([&] {
                all_are_here.arrive_and_wait();
                folder = scratch_folder(*group);
            });
    }
    EXPECT_TRUE(std::filesystem::is_directory(folders[0]));
    EXPECT_THAT(folders, ::testing::Each(folders[0]));
}

} // namespace
} // namespace truestep::gate
