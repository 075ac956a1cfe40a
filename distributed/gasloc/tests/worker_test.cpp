// Tests GASLoC workers: rounds by hand, bad calls, and which ranks a failure or delay reaches.
#include <truestep/distributed/gasloc/worker.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/distributed/agreed_values.hpp>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::distributed::gasloc {
namespace {

using distributed::Peers;
using testing::ElementsAre;
using testing::HasSubstr;
using Floats = std::vector<float>;
constexpr std::chrono::seconds timeout{20};

Settings plain_sgd() {
    Settings settings;
    settings.inner = Inner::sgd;
    settings.hyper.weight_decay = 0.0;
    settings.gamma = 0.0;
    settings.law = Law::ring;
    return settings;
}

/// The error of each rank, or "".
template <class Work>
std::vector<std::string> errors_of(int ranks, const Work& work, std::chrono::milliseconds most = timeout) {
    std::vector<std::string> errors(static_cast<std::size_t>(ranks));
    distributed::run_peers(
        ranks,
        [&](Peers& peers) {
            try {
                work(peers);
            } catch (const std::exception& error) {
                errors[static_cast<std::size_t>(peers.rank())] = error.what();
                peers.leave(error.what());
            }
        },
        most);
    return errors;
}

// x_0 = 1 - 0.5*2 = 0, x_1 = 1 - 0.5*(-4) = 3; with alpha = 1 and one edge both end at 1.5.
TEST(Worker, TwoMeetInTheMiddle) {
    distributed::run_peers(2, [](Peers& peers) {
        Worker worker(plain_sgd(), Floats{1.0F}, peers);
        EXPECT_TRUE(worker.step(Floats{peers.rank() == 0 ? 2.0F : -4.0F}, 0.5));
        EXPECT_THAT(worker.parameters(), ElementsAre(peers.rank() == 0 ? 0.0F : 3.0F));
        const Round round = worker.round();
        EXPECT_THAT(worker.parameters(), ElementsAre(1.5F));
        EXPECT_EQ(round.number, 1);
        EXPECT_EQ(round.inner_steps, 1);
        EXPECT_EQ(round.sent, 4U);
        EXPECT_THAT(round.met, ElementsAre(Neighbour{1 - peers.rank(), 1.0}));
    });
}

TEST(Worker, ASkippedRoundTakesItsStepsBack) {
    distributed::run_peers(1, [](Peers& peers) {
        Settings settings = plain_sgd();
        settings.inner = Inner::adamw;
        Worker worker(settings, Floats{1.0F, -0.0F}, peers);
        EXPECT_TRUE(worker.step(Floats{1.0F, 2.0F}, 0.5));
        EXPECT_FALSE(worker.step(Floats{1.0F, std::numeric_limits<float>::infinity()}, 0.5));
        EXPECT_THAT(worker.parameters(), ElementsAre(1.0F, 0.0F));
        EXPECT_FALSE(worker.step(Floats{1.0F, 1.0F}, 0.5)) << "the round is lost";
        const Round round = worker.round();
        EXPECT_TRUE(round.skipped);
        EXPECT_EQ(round.inner_steps, 0);
        const State state = worker.state();
        EXPECT_EQ(state.s, 0);
        EXPECT_THAT(state.m, ElementsAre(0.0F, 0.0F));
        EXPECT_TRUE(std::signbit(state.theta[1]));
        EXPECT_TRUE(worker.step(Floats{1.0F, 1.0F}, 0.5)) << "the next one is not";
    });
}

TEST(Worker, BadCallsAreRefusedAndChangeNothing) {
    distributed::run_peers(1, [](Peers& peers) {
        Worker worker(plain_sgd(), Floats{1.0F}, peers);
        const auto error_of = [](const auto& act) -> std::string {
            try {
                act();
            } catch (const Error& error) {
                return error.what();
            }
            return "none";
        };
        EXPECT_EQ(error_of([&] {
                      worker.step(Floats{1.0F, 2.0F}, 0.5);
                  }),
                  "the gradient has 2 values; the model has 1 parameters");
        EXPECT_EQ(error_of([&] { worker.step(Floats{1.0F}, std::numeric_limits<double>::infinity()); }),
                  "the learning rate is inf; it must be finite");
        worker.step(Floats{1.0F}, 0.5);
        EXPECT_EQ(error_of([&] { static_cast<void>(worker.state()); }),
                  "state() is available only between two rounds; end this round first");
        worker.round();
        EXPECT_THAT(worker.parameters(), ElementsAre(0.5F));
    });
}

TEST(Worker, WhatRanksDoNotShareIsNamedOnAllOfThem) {
    const auto with = [](const auto& change) {
        return errors_of(3, [&](Peers& peers) {
            Settings settings = plain_sgd();
            Floats start{1.0F, 2.0F};
            if (peers.rank() == 1)
                change(settings, start);
            const Worker worker(settings, start, peers);
        });
    };
    EXPECT_THAT(with([](Settings& s, Floats&) { s.alpha = 0.5; }),
                testing::Each("rank 1 has alpha 0.5 where rank 0 has 1; start all ranks with the same"));
    EXPECT_THAT(with([](Settings& s, Floats&) { s.law = Law::pairs; }),
                testing::Each("rank 1 has law pairs where rank 0 has ring; start all ranks with the same"));
    EXPECT_THAT(with([](Settings& s, Floats&) { s.hyper.beta1 = 0.5; }),
                testing::Each("rank 1 has beta1 0.5 where rank 0 has 0.9; start all ranks with the same"));
    EXPECT_THAT(with([](Settings&, Floats& start) { start[1] = 3.0F; }),
                testing::Each("rank 1 has other parameters than rank 0; start all ranks with the same"));
    EXPECT_THAT(with([](Settings&, Floats& start) { start.push_back(3.0F); }),
                testing::Each(HasSubstr("rank 1 has the number of parameters 3 where rank 0 has 2")));
    EXPECT_THAT(with([](Settings&, Floats&) {}), testing::Each(""));
}

TEST(Worker, WhatDivergesDoesNotBegin) {
    const auto errors = errors_of(4, [](Peers& peers) {
        Settings settings = plain_sgd();
        settings.law = Law::pairs;
        settings.gamma = 0.9;
        const Worker worker(settings, Floats{1.0F}, peers);
    });
    EXPECT_THAT(errors, testing::Each(HasSubstr("use a gamma below")));
}

TEST(Worker, ANeighbourThatHaltsIsNamed) {
    const auto errors = errors_of(2, [](Peers& peers) {
        Worker worker(plain_sgd(), Floats{0.0F}, peers);
        worker.step(Floats{peers.rank() == 0 ? -3e38F : 3e38F}, 1.0);
        worker.round(); // the difference overflows on both
    });
    EXPECT_THAT(errors, testing::Each(HasSubstr("halted: after round 1 a parameter is not finite")));
}

// Workers 0 and 1 meet, 2 and 3 meet. Worker 3 fails: 2 gets one line that names it, the others
// continue.
TEST(Worker, OneThatFailsEndsThoseThatNeedItAlone) {
    std::atomic<int> ended{0};
    const auto errors = errors_of(4, [&](Peers& peers) {
        Settings settings = plain_sgd();
        settings.law = Law::given;
        settings.given = {{{0, 1}, {2, 3}}};
        Worker worker(settings, Floats{1.0F}, peers);
        for (int round = 1; round <= 30; ++round) {
            if (peers.rank() == 3 && round == 5)
                throw std::runtime_error("out of memory");
            worker.step(Floats{1.0F}, 0.125);
            worker.round();
        }
        ++ended;
    });
    EXPECT_EQ(ended, 2);
    EXPECT_EQ(errors[0] + errors[1], "");
    EXPECT_THAT(errors[2], HasSubstr("rank 3"));
    EXPECT_THAT(errors[2], HasSubstr("out of memory"));
}

TEST(Worker, WhatOneIsRefusedIsToldToAllAndTheyMayTryAgain) {
    distributed::run_peers(2, [](Peers& peers) {
        const bool odd = peers.rank() == 1;
        const auto told = [&](const std::string& text) {
            return testing::ThrowsMessage<Error>(odd ? HasSubstr(text) : HasSubstr("rank 1: " + text));
        };
        Settings settings = plain_sgd();
        const Settings good = settings;
        if (odd)
            settings.gamma = 9.0;
        EXPECT_THAT([&] { Worker(settings, Floats{1.0F}, peers); }, told("gamma"));
        Worker worker(good, Floats{1.0F}, peers);
        State state = worker.state();
        const State begin = state;
        if (odd)
            state.theta = {std::numeric_limits<float>::infinity()};
        EXPECT_THAT([&] { worker.restore(state); }, told("parameters: coordinate 0 is inf"));
        worker.restore(begin);
        worker.step(Floats{2.0F}, 0.5);
        worker.round();
        EXPECT_EQ(worker.state().rounds, 1);
        worker.step(Floats{3e38F}, 1e39);
        EXPECT_THROW(worker.round(), Halted);
        EXPECT_EQ(worker.state().rounds, 2) << "users look at what is not finite";
    });
}

TEST(Worker, AnInterruptedRoundHasNoState) {
    const auto errors = errors_of(2, [](Peers& peers) {
        Worker worker(plain_sgd(), Floats{1.0F}, peers);
        if (peers.rank() == 1)
            throw Error("out of memory");
        EXPECT_THROW(worker.round(), distributed::Aborted);
        static_cast<void>(worker.state());
    });
    EXPECT_THAT(errors[0], HasSubstr("halted: round 1 was interrupted"));
}

// On a ring the effect of a worker travels one worker further each round. So while worker 0 does
// not begin its first round, those at a distance of k end k-1 rounds, and the one across 50,
// without waiting for any other.
TEST(Worker, OneThatIsHeldBackHoldsBackItsLightConeAlone) {
    constexpr int workers = 102;
    constexpr int rounds = 50;
    const auto free_rounds = [](int worker) { return std::min(worker, workers - worker) - 1; };
    std::array<std::atomic<int>, workers> ended{};
    std::vector<int> when_let_go;
    distributed::run_peers(workers, [&](Peers& peers) {
        Settings settings = plain_sgd();
        settings.alpha = 0.5;
        Worker worker(settings, Floats{1.0F}, peers);
        if (peers.rank() == 0) {
            for (int other = 1; other < workers; ++other)
                while (ended[static_cast<std::size_t>(other)] < free_rounds(other))
                    peers.progress();
            when_let_go.assign(ended.begin(), ended.end());
        }
        for (int round = 1; round <= rounds; ++round) {
            worker.step(Floats{static_cast<float>(peers.rank())}, 0.125);
            worker.round();
            ended[static_cast<std::size_t>(peers.rank())] = round;
        }
    });
    ASSERT_EQ(when_let_go.size(), workers);
    for (int worker = 1; worker < workers; ++worker)
        EXPECT_EQ(when_let_go[static_cast<std::size_t>(worker)], free_rounds(worker))
            << "worker " << worker;
    EXPECT_EQ(when_let_go[workers / 2], rounds);
    EXPECT_THAT(ended, testing::Each(testing::Eq(rounds)));
}

TEST(Worker, OneThatIsAheadDoesNotTouchWhatOthersStillRead) {
    // Worker 0 meets 1 in the first round and no worker afterwards; 1 takes its message late.
    std::atomic<bool> far_ahead{false};
    std::atomic<float> seen{0.0F};
    distributed::run_peers(2, [&](Peers& peers) {
        if (peers.rank() == 0) {
            Settings settings = plain_sgd();
            settings.law = Law::given;
            settings.given = {{{0, 1}}, {}, {}, {}, {}, {}, {}, {}};
            Worker worker(settings, Floats(1000, 1.0F), peers);
            for (int round = 1; round <= 8; ++round) {
                worker.step(Floats(1000, 1.0F), 0.125);
                worker.round();
            }
            far_ahead = true;
            return;
        }
        // Acts as a worker: both agreements, then its own y at once and the other's when it is far
        // ahead.
        for (const std::size_t record : {std::size_t{400}, sizeof(distributed::AgreedRecord)}) {
            const auto agreement = peers.receive(distributed::Traffic::agreement, 0, 0, record);
            const auto copy = std::make_shared<std::vector<std::byte>>(agreement->wait(record),
                                                                       agreement->wait(record) + record);
            peers.send(distributed::Traffic::agreement, 0, 0, {copy, copy->data()}, record);
        }
        const auto y = std::make_shared<Floats>(1000, 1.0F);
        peers.send(distributed::Traffic::parameters, 0, 1, {y, y->data()}, 4000);
        const auto incoming = peers.receive(distributed::Traffic::parameters, 0, 1, 4000);
        const std::byte* const bytes = incoming->wait(4000);
        while (!far_ahead)
            peers.progress();
        seen = *(reinterpret_cast<const float*>(bytes) + 999);
    });
    EXPECT_EQ(seen, 0.875F) << "y of the first round, eight rounds later";
}

TEST(Worker, ThreadsChangeNoBit) {
    std::map<int, State> states;
    std::mutex mutex;
    for (const int threads : {1, 2, 3})
        distributed::run_peers(2, [&](Peers& peers) {
            Settings settings = plain_sgd();
            settings.inner = Inner::adamw;
            settings.gamma = 0.5;
            constexpr std::size_t size = 200'003;
            Worker worker(settings, Floats(size, 0.5F), peers, {threads});
            Floats g(size);
            for (int round = 0; round < 2; ++round) {
                for (std::size_t i = 0; i < size; ++i)
                    g[i] = std::sin(
                        static_cast<float>(i + static_cast<std::size_t>(7 * peers.rank() + round)));
                worker.step(g, 0.01);
                worker.step(g, 0.02);
                worker.round();
            }
            const std::lock_guard lock(mutex);
            const State state = worker.state();
            const auto [first, is_new] = states.emplace(peers.rank(), state);
            EXPECT_TRUE(is_new || first->second == state) << threads << " threads, rank " << peers.rank();
        });
}

} // namespace
} // namespace truestep::distributed::gasloc
