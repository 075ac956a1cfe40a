// Compares the ends of a boundary over blocks with the host's, and tests how callers use a
// backend's own memory.
#include <limits>
#include <string>

#include <truestep/gpu/host_machine.hpp>
#include <truestep/gpu/mapl/planted_devices.hpp>
#include <truestep/problem/error.hpp>

#include "ends.hpp"

namespace truestep::gpu::mapl {
namespace {

using distributed::Peers;

gpu::HostStream stream_of(int rank, int threads = 64) {
    return {threads, 1 + 16 * static_cast<std::uint64_t>(rank)};
}
EndResources blocks(Peers& ranks) {
    const gpu::HostStream stream = stream_of(ranks.rank());
    return {make_block_peers(ranks, stream), make_block_backend(stream)};
}

// Only one step: later A differs, since the last bit of the norm of m does.
TEST(MaplBlockEnds, OneStepIsTheHostsInEveryBitButA) {
    for (const Settings& settings : kinds(12, 4)) {
        const StepResults right = played(settings, on_host, 33, 1);
        StepResults shown = played(settings, blocks, 33, 1);
        near(right.a, shown.a, "A");
        shown.a = right.a;
        EXPECT_TRUE(shown.finite);
        EXPECT_TRUE(shown == right) << name(settings.anchors) << " " << name(settings.payload);
    }
}

TEST(MaplBlockEnds, StepsAreTheHosts) {
    for (const Settings& settings : kinds(40, 16))
        if (settings.payload == Payload::fp32 && !quantizes(settings))
            near(played(settings, on_host, 70, 3), played(settings, blocks, 70, 3));
}

TEST(MaplBlockEnds, EachStepAloneIsTheHosts) {
    for (const Settings& settings : kinds(40, 16))
        if (settings.payload == Payload::fp32 && !quantizes(settings))
            each_step_alone(settings, blocks, 70);
}

TEST(MaplBlockEnds, TheSameAgainWhateverTheThreads) {
    for (const Settings& settings : kinds(12, 4)) {
        const StepResults one = played(settings, blocks, 33, 3);
        EXPECT_TRUE(one == played(
                               settings,
                               [](Peers& ranks) -> EndResources {
                                   const gpu::HostStream stream = stream_of(ranks.rank() + 5, 256);
                                   return {make_block_peers(ranks, stream), make_block_backend(stream)};
                               },
                               33, 3))
            << name(settings.anchors) << " " << name(settings.payload);
    }
}

TEST(MaplBlockEnds, NoTokensAreFewTokens) {
    for (const Settings& settings : kinds(12, 4)) {
        const StepResults shown = played(settings, blocks, 0, 1);
        EXPECT_TRUE(shown.dx.at(0).empty());
        EXPECT_EQ(shown.gradient, Floats(48, 0.0F));
    }
}

TEST(MaplBlockEnds, WhatIsPlantedGivesOtherBits) {
    using device_known_bugs::KnownBug;
    const Settings settings{.width = 7, .rank = 3, .vocabulary = 7, .anchors = Anchors::two};
    const StepResults right = played(settings, blocks, 33, 1);
    for (const KnownBug known_bug : {KnownBug::barrier_missing, KnownBug::last_quad_left_out,
                                     KnownBug::sent_before_written, KnownBug::rows_added_at_once}) {
        bool unlike = true;
        try {
            unlike = !(right == played(
                                    settings,
                                    [known_bug](Peers& ranks) -> EndResources {
                                        const gpu::HostStream stream = stream_of(ranks.rank());
                                        auto [peers, backend] =
                                            device_known_bugs::on_stream(known_bug, ranks, stream);
                                        return {std::move(peers), std::move(backend)};
                                    },
                                    33, 1));
        } catch (const std::exception& error) { // an id that was never sent, for example
            EXPECT_EQ(known_bug, KnownBug::sent_before_written) << error.what();
        }
        EXPECT_TRUE(unlike) << static_cast<int>(known_bug);
    }
}

/// One sender and one receiver; a refused micro-batch sends nothing and changes nothing.
TEST(MaplBlockEnds, WhatIsNotFiniteIsRefusedAndTheNextIsAsIfNothingHadBeen) {
    const Settings settings{.width = 6, .rank = 2, .vocabulary = 3, .payload = Payload::bf16};
    const Floats start = first_subspace(6, 2, 1);
    const std::vector<Id> ids{0, 1, 2};
    std::string senders;
    std::string receivers;
    distributed::run_peers(2, [&](Peers& ranks) {
        EndResources house = blocks(ranks);
        Floats bad = wave(18, 1.0F);
        bad[7] = std::numeric_limits<float>::infinity();
        if (ranks.rank() == 0) {
            Sender sender(settings, first_state(settings, Side::sender, start, {}), *house.peers, 1,
                          nullptr, std::move(house.backend));
            try {
                sender.forward(0, bad, ids);
            } catch (const Error& error) {
                senders = error.what();
            }
            sender.forward(0, wave(18, 1.0F), ids);
            EXPECT_EQ(sender.backward(0).size(), 18U);
            EXPECT_TRUE(sender.end_step(0.1));
        } else {
            Receiver receiver(settings, first_state(settings, Side::receiver, start, {}), *house.peers, 0,
                              std::move(house.backend));
            EXPECT_EQ(receiver.forward(0, 3).ids, ids);
            try {
                receiver.backward(0, bad);
            } catch (const Error& error) {
                receivers = error.what();
            }
            receiver.backward(0, wave(18, 2.0F));
            receiver.end_step();
            static_cast<void>(receiver.subspace());
        }
    });
    EXPECT_EQ(senders, "micro-batch 0 has an activation that is not finite; nothing was sent");
    EXPECT_EQ(receivers, "micro-batch 0 has a gradient that is not finite; nothing was sent");
}

/// The messages of a second end have the same numbers and sizes as the first one's, and may reuse
/// their memory.
TEST(MaplBlockEnds, OneThatComesAfterAnotherSendsItsOwn) {
    const Settings settings{.width = 6, .rank = 2, .vocabulary = 3};
    const Floats start = first_subspace(6, 2, 1);
    const std::vector<Id> ids{0, 1, 2};
    std::vector<Floats> arrived;
    distributed::run_peers(2, [&](Peers& ranks) {
        const gpu::HostStream stream = stream_of(ranks.rank());
        const auto peers = make_block_peers(ranks, stream);
        for (const float first : {1.0F, 2.0F}) {
            if (ranks.rank() == 0) {
                Sender sender(settings, first_state(settings, Side::sender, start, {}), *peers, 1, nullptr,
                              make_block_backend(stream));
                sender.forward(0, wave(18, first), ids);
            } else {
                Receiver receiver(settings, first_state(settings, Side::receiver, start, {}), *peers, 0,
                                  make_block_backend(stream));
                arrived.push_back(receiver.forward(0, 3).activations);
            }
        }
    });
    ASSERT_EQ(arrived.size(), 2U);
    EXPECT_NE(arrived[0], arrived[1]);
}

TEST(MaplBlockEnds, PeersOfAnotherMemoryAreRefused) {
    const Settings settings{.width = 6, .rank = 2, .vocabulary = 3};
    const EndState state = first_state(settings, Side::sender, first_subspace(6, 2, 1), {});
    distributed::run_peers(2, [&](Peers& ranks) {
        const gpu::HostStream stream = stream_of(ranks.rank());
        const auto peers = make_block_peers(ranks, stream);
        const int other = 1 - ranks.rank();
        EXPECT_THROW(Sender(settings, state, *peers, other), Error);
        EXPECT_THROW(Sender(settings, state, ranks, other, nullptr, make_block_backend(stream)), Error);
    });
}

/// Activations are made on the stream, and results are read on it: nothing passes through the host.
TEST(MaplBlockEnds, ValuesStandWhereTheBackendComputes) {
    const Settings settings{.width = 6, .rank = 2, .vocabulary = 3};
    const Floats start = first_subspace(6, 2, 1);
    const std::vector<Id> ids{0, 1, 2};
    const auto one_way = [&](bool there) {
        std::vector<Floats> seen(2);
        distributed::run_peers(2, [&](Peers& ranks) {
            const gpu::HostStream stream = stream_of(ranks.rank());
            gpu::HostMachine machine(stream, gpu::Exchange::device);
            const auto peers = make_block_peers(ranks, stream);
            const Floats given = wave(18, static_cast<float>(1 + ranks.rank()));
            gpu::HostMachine::Vector<float> vector;
            machine.resize(vector, 18);
            machine.upload(vector.data(), given.data(), 18);
            const std::span<const float> values =
                there ? std::span<const float>(vector.data(), 18) : std::span<const float>(given);
            const auto read = [&](const std::shared_ptr<const float>& from) {
                Floats here(18);
                machine.download(here.data(), from.get(), 18);
                return here;
            };
            Floats& mine = seen[static_cast<std::size_t>(ranks.rank())];
            if (ranks.rank() == 0) {
                Sender sender(settings, first_state(settings, Side::sender, start, {}), *peers, 1, nullptr,
                              make_block_backend(stream));
                sender.forward(0, values, ids);
                mine = there ? read(sender.backward_there(0)) : sender.backward(0);
            } else {
                Receiver receiver(settings, first_state(settings, Side::receiver, start, {}), *peers, 0,
                                  make_block_backend(stream));
                if (there)
                    mine = read(receiver.forward_there(0, 3).activations);
                else
                    mine = receiver.forward(0, 3).activations;
                receiver.backward(0, values);
            }
            machine.finish();
        });
        return seen;
    };
    EXPECT_EQ(one_way(true), one_way(false));
}

TEST(MaplHostEnds, LendTheirResultsToo) {
    const Settings settings{.width = 6, .rank = 2, .vocabulary = 3};
    const Floats start = first_subspace(6, 2, 1);
    distributed::run_peers(2, [&](Peers& ranks) {
        const Floats given = wave(18, 1.0F);
        if (ranks.rank() == 0) {
            Sender sender(settings, first_state(settings, Side::sender, start, {}), ranks, 1);
            sender.forward(0, given, std::vector<Id>{0, 1, 2});
            const std::shared_ptr<const float> dx = sender.backward_there(0);
            sender.forward(1, given, std::vector<Id>{0, 1, 2});
            const Floats again = sender.backward(1);
            EXPECT_EQ(Floats(dx.get(), dx.get() + 18), again);
        } else {
            Receiver receiver(settings, first_state(settings, Side::receiver, start, {}), ranks, 0);
            const Receiver::ReceivedActivationsThere there = receiver.forward_there(0, 3);
            receiver.backward(0, given);
            EXPECT_EQ(Floats(there.activations.get(), there.activations.get() + 18),
                      receiver.forward(1, 3).activations);
            receiver.backward(1, given);
        }
    });
}

} // namespace
} // namespace truestep::gpu::mapl
