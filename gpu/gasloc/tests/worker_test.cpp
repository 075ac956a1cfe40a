// Compares a worker over blocks with one over the host's passes: through rounds, skipped ones, a
// restart, failures.
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/distributed/gasloc/worker.hpp>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/gpu/gasloc/devices.hpp>
#include <truestep/gpu/gasloc/planted_devices.hpp>
#include <truestep/gpu/peers.hpp>

namespace truestep::gpu::gasloc {
namespace {

using distributed::Peers;
using testing::HasSubstr;
using Floats = std::vector<float>;

constexpr std::size_t size = 5003;

Settings settings_of(Inner inner, Momentum momentum) {
    Settings settings;
    settings.inner = inner;
    settings.momentum = momentum;
    settings.law = Law::two_peers;
    settings.alpha = 0.75;
    settings.gamma = 0.5;
    settings.eta = 0.7;
    return settings;
}

Floats wave(std::size_t seed) {
    Floats values(size);
    for (std::size_t i = 0; i < size; ++i)
        values[i] = std::sin(static_cast<float>(seed * 100 + i));
    return values;
}

/// Rounds with two, one and no inner steps, and one that a bad gradient ends.
template <class Rounds>
void train(Worker& worker, int rank, Rounds first, Rounds last) {
    for (auto round = first; round <= last; ++round) {
        for (int step = 0; step < (round + rank) % 3; ++step) {
            Floats g = wave(static_cast<std::size_t>(10 * round + step + 100 * rank));
            if (round == 3 && rank == 1 && step == 0)
                g[size - 1] = std::numeric_limits<float>::infinity();
            worker.step(g, 0.01);
        }
        worker.round();
    }
}

State on_host(const Settings& settings, Peers& peers, int rounds) {
    Worker worker(settings, wave(0), peers);
    train(worker, peers.rank(), 1, rounds);
    return worker.state();
}

class BlockWorkers : public testing::TestWithParam<Inner> {};
std::string inner_name(const testing::TestParamInfo<Inner>& info) {
    return std::string(name(info.param));
}
INSTANTIATE_TEST_SUITE_P(Inner, BlockWorkers, testing::Values(Inner::sgd, Inner::adams, Inner::adamw),
                         inner_name);

TEST_P(BlockWorkers, AWorkerIsTheHostsInEveryBitAlsoAfterARestart) {
    for (const Momentum momentum : {Momentum::local, Momentum::gossiped})
        distributed::run_peers(3, [&](Peers& peers) {
            const Settings settings = settings_of(GetParam(), momentum);
            const State right = on_host(settings, peers, 8);
            const gpu::HostStream stream(64, 1 + 16 * static_cast<std::uint64_t>(peers.rank()));
            State state = first_state(settings, wave(0));
            for (const int last : {4, 8}) {
                const auto on_stream = gpu::make_block_peers(peers, stream);
                Worker worker(settings, state, *on_stream, make_block_backend(stream));
                train(worker, peers.rank(), last - 3, last);
                state = worker.state();
            }
            EXPECT_TRUE(state == right) << name(momentum) << ", rank " << peers.rank();
        });
}

TEST_P(BlockWorkers, WhatIsPlantedGivesOtherBits) {
    using device_known_bugs::KnownBug;
    for (const KnownBug known_bug : {KnownBug::gossip_in_place, KnownBug::last_quad_left_out,
                                     KnownBug::sent_before_written, KnownBug::fused_multiply_add}) {
        std::atomic<int> unlike{0};
        distributed::run_peers(3, [&](Peers& peers) {
            const Settings settings = settings_of(GetParam(), Momentum::local);
            const State right = on_host(settings, peers, 4);
            const gpu::HostStream stream(64, 1 + 16 * static_cast<std::uint64_t>(peers.rank()));
            auto [on_stream, backend] = device_known_bugs::on_stream(known_bug, peers, stream);
            Worker worker(settings, first_state(settings, wave(0)), *on_stream, std::move(backend));
            try {
                train(worker, peers.rank(), 1, 4);
                unlike += worker.state() == right ? 0 : 1;
            } catch (const std::runtime_error& error) { // unwritten memory may hold a NaN
                ++unlike;
                on_stream->leave(error.what());
            }
        });
        EXPECT_GT(unlike, 0) << static_cast<int>(known_bug);
    }
}

TEST(BlockWorker, ParametersAreXInARoundAndThetaBetweenTwo) {
    distributed::run_peers(1, [](Peers& peers) {
        Settings settings = settings_of(Inner::sgd, Momentum::local);
        settings.hyper.weight_decay = 0.0;
        settings.gamma = 0.0;
        settings.eta = 2.0;
        const gpu::HostStream stream(32, 5);
        const auto on_stream = gpu::make_block_peers(peers, stream);
        Worker worker(settings, first_state(settings, Floats{1.0F, -0.0F}), *on_stream,
                      make_block_backend(stream));
        EXPECT_THAT(worker.parameters(), testing::ElementsAre(1.0F, -0.0F));
        EXPECT_TRUE(worker.step(Floats{1.0F, 0.0F}, 0.5));
        EXPECT_EQ(worker.parameters_in_place()[0], 0.5F);
        EXPECT_THAT(worker.parameters(), testing::ElementsAre(0.5F, 0.0F));
        EXPECT_FALSE(worker.step(Floats{1.0F, std::nanf("")}, 0.5));
        EXPECT_THAT(worker.parameters(), testing::ElementsAre(1.0F, 0.0F)) << "the round is lost";
        EXPECT_EQ(worker.parameters_in_place()[0], 1.0F);
        EXPECT_TRUE(worker.round().skipped);
        EXPECT_TRUE(std::signbit(worker.parameters()[1])) << "the same bits";
        EXPECT_TRUE(worker.step(Floats{1.0F, 0.0F}, 0.5));
        EXPECT_FALSE(worker.round().skipped);
        EXPECT_THAT(worker.parameters(), testing::ElementsAre(0.0F, 0.0F));
    });
}

TEST(BlockWorker, AModelThatIsNotFiniteHalts) {
    std::vector<std::string> errors(2);
    distributed::run_peers(2, [&](Peers& peers) {
        Settings settings = settings_of(Inner::sgd, Momentum::local);
        settings.hyper.weight_decay = 0.0;
        const gpu::HostStream stream(32, 5);
        const auto on_stream = gpu::make_block_peers(peers, stream);
        Worker worker(settings, first_state(settings, Floats{0.0F}), *on_stream,
                      make_block_backend(stream));
        worker.step(Floats{peers.rank() == 0 ? -3e38F : 3e38F}, 1.0);
        try {
            worker.round(); // the difference overflows on both
        } catch (const Halted& halted) {
            errors[static_cast<std::size_t>(peers.rank())] = halted.what();
        }
    });
    EXPECT_THAT(errors, testing::Each(HasSubstr("halted: after round 1 a parameter is not finite")));
}

TEST(BlockWorker, OneThatFailsIsNamedAndTheOthersGoOn) {
    std::atomic<int> ended{0};
    std::string told;
    try {
        distributed::run_peers(4, [&](Peers& peers) {
            Settings settings = settings_of(Inner::sgd, Momentum::local);
            settings.law = Law::given;
            settings.given = {{{0, 1}, {2, 3}}};
            const gpu::HostStream stream(32, 3);
            const auto on_stream = gpu::make_block_peers(peers, stream);
            Worker worker(settings, first_state(settings, Floats{1.0F}), *on_stream,
                          make_block_backend(stream));
            for (int round = 1; round <= 20; ++round) {
                if (peers.rank() == 3 && round == 5)
                    throw std::runtime_error("out of memory");
                try {
                    worker.round();
                } catch (const distributed::Aborted& aborted) {
                    told = aborted.what();
                    throw;
                }
            }
            ++ended;
        });
        FAIL() << "nobody noticed";
    } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "out of memory");
    }
    EXPECT_EQ(ended, 2);
    EXPECT_EQ(told, "rank 3 has failed: out of memory");
}

} // namespace
} // namespace truestep::gpu::gasloc
