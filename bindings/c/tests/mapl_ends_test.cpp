// Tests that MAPL through the C interface has the bits of a sender and receiver with messages.
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep.h>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/distributed/mapl/ends.hpp>
#include <truestep/distributed/peer_communicator.hpp>
#include <truestep/problem/mapl/quantization.hpp>

namespace truestep::abi {
namespace {

using namespace distributed::mapl;
using namespace problem::mapl;
using distributed::Peers;

constexpr Index tokens = 7;
constexpr int steps = 3;
constexpr int micro_batches = 2;

Settings with(Payload payload, const Quantization& quantization = {}) {
    return {.width = 6,
            .rank = 3,
            .vocabulary = 4,
            .anchors = Anchors::two,
            .payload = payload,
            .quantization = quantization};
}

std::string text_of(const Settings& settings) {
    const Quantization& of = settings.quantization;
    return "width=6 rank=3 vocabulary=4 anchors=two payload=" + std::string(name(settings.payload)) +
           " codewords=" + std::to_string(of.codewords) + " groups=" + std::to_string(of.groups) +
           " rounds=" + std::to_string(of.rounds) + " subsets=" + std::to_string(of.subsets) +
           " decay=" + std::to_string(of.decay);
}

Floats synthetic(double phase, std::size_t count) {
    Floats values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(std::sin(phase + 0.37 * static_cast<double>(i * i % 101)));
    return values;
}

Floats activations(int number) {
    return synthetic(number, tokens * 6);
}
Floats gradient(int number) {
    return synthetic(100.0 + number, tokens * 6);
}
std::vector<Id> ids(int number) {
    std::vector<Id> made;
    for (Index token = 0; token < tokens; ++token)
        made.push_back(static_cast<Id>((token * 3 + number) % 4));
    return made;
}
const Floats sender_anchor = synthetic(7.0, 12);
const Floats receiver_anchor = synthetic(8.0, 12);

/// All results, in this order: for each micro-batch Xhat, dX; for each step dE of both, A, and the
/// codebooks.
struct AllResults {
    std::vector<Floats> activations, gradients, of_sender, of_receiver, subspaces, codebooks, learned;
    Floats receivers_codebooks; ///< at the end
    friend bool operator==(const AllResults&, const AllResults&) = default;
};

AllResults over_ends(const Settings& settings) {
    AllResults came;
    const Floats start = first_subspace(6, 3, 1);
    distributed::run_peers(2, [&](Peers& peers) {
        if (peers.rank() == 0) {
            Sender sender(settings, first_state(settings, Side::sender, start, sender_anchor), peers, 1);
            for (int step = 0; step < steps; ++step) {
                for (int micro = 0; micro < micro_batches; ++micro) {
                    const int number = step * micro_batches + micro;
                    sender.forward(micro, activations(number), ids(number));
                }
                for (int micro = 0; micro < micro_batches; ++micro)
                    came.gradients.push_back(sender.backward(micro));
                EXPECT_TRUE(sender.end_step(0.1));
                came.of_sender.push_back(sender.anchor_gradient());
                came.subspaces.push_back(sender.subspace());
                came.codebooks.push_back(sender.state().codebooks);
                came.learned.push_back(sender.state().learned);
            }
            return;
        }
        Receiver receiver(settings, first_state(settings, Side::receiver, start, receiver_anchor), peers,
                          0);
        for (int step = 0; step < steps; ++step) {
            for (int micro = 0; micro < micro_batches; ++micro)
                came.activations.push_back(receiver.forward(micro, tokens).activations);
            for (int micro = 0; micro < micro_batches; ++micro)
                receiver.backward(micro, gradient(step * micro_batches + micro));
            receiver.end_step();
            came.of_receiver.push_back(receiver.anchor_gradient());
        }
        came.receivers_codebooks = receiver.state().codebooks;
    });
    return came;
}

truestep_values view(const Floats& values) {
    return {values.data(), static_cast<int64_t>(values.size()), TRUESTEP_F32};
}

Floats look(const truestep_values& view) {
    const auto* begin = static_cast<const float*>(view.data);
    return {begin, begin + view.count};
}

/// Carries the message of Z; Z becomes what the receiver decodes.
void send_as_codewords(truestep_mapl_boundary* boundary, const Settings& settings, Floats& z) {
    std::vector<std::byte> message(index_bytes(settings, tokens) + codeword_bytes(settings));
    const auto bytes = static_cast<int64_t>(message.size());
    EXPECT_EQ(truestep_mapl_boundary_message_bytes(boundary, tokens), bytes);
    uint64_t version = 0;
    EXPECT_EQ(truestep_mapl_boundary_version(boundary, TRUESTEP_MAPL_SENDER, &version), TRUESTEP_OK);
    const truestep_values given = view(z);
    EXPECT_EQ(truestep_mapl_boundary_encode(boundary, &given, tokens, message.data(), nullptr),
              TRUESTEP_OK);
    EXPECT_EQ(truestep_mapl_boundary_decode(boundary, message.data(), bytes, &version, tokens, z.data()),
              TRUESTEP_OK)
        << truestep_last_error();
}

/// Takes a micro-batch through one handle of the C interface, forward and back.
void carry_with(truestep_mapl_boundary* boundary, const Settings& settings, int step, int number,
                const std::vector<Id>& narrow, AllResults& came) {
    const truestep_values of_sender = view(sender_anchor);
    const truestep_values of_receiver = view(receiver_anchor);
    const Floats x = activations(number);
    const Floats g = gradient(number);
    const std::vector<int64_t> wide(narrow.begin(), narrow.end());
    Floats q(x.size());
    Floats z(tokens * 3);
    Floats xhat(x.size());
    Floats dz(z.size());
    Floats dx(x.size());
    const std::array<truestep_values, 5> views{view(x), view(g), view(q), view(z), view(dz)};
    EXPECT_EQ(truestep_mapl_boundary_compress(boundary, &views[0], &of_sender, wide.data(), tokens,
                                              q.data(), z.data()),
              TRUESTEP_OK);
    if (quantizes(settings))
        send_as_codewords(boundary, settings, z);
    EXPECT_EQ(truestep_mapl_boundary_decompress(boundary, &views[3], &of_receiver, wide.data(), tokens,
                                                xhat.data()),
              TRUESTEP_OK);
    EXPECT_EQ(truestep_mapl_boundary_decompress_backward(boundary, step, &views[3], &views[1], wide.data(),
                                                         tokens, dz.data(), came.of_receiver.back().data()),
              TRUESTEP_OK);
    EXPECT_EQ(truestep_mapl_boundary_compress_backward(boundary, step, &views[2], &views[4], wide.data(),
                                                       tokens, dx.data(), came.of_sender.back().data()),
              TRUESTEP_OK);
    came.activations.push_back(xhat);
    came.gradients.push_back(dx);
}

void carry(truestep_mapl_boundary* boundary, const Settings& settings, int step, int number,
           AllResults& came) {
    carry_with(boundary, settings, step, number, ids(number), came);
}

/// The same as over ends, with `rate` in all steps.
AllResults over_handle(double rate, const Settings& settings) {
    AllResults came;
    truestep_mapl_boundary* boundary = nullptr;
    EXPECT_EQ(truestep_mapl_boundary_create(text_of(settings).c_str(), nullptr, &boundary), TRUESTEP_OK)
        << truestep_last_error();
    truestep_mapl_state state{};
    state.struct_size = sizeof state;
    for (int step = 0; step < steps; ++step) {
        came.of_sender.emplace_back(12, 0.0F);
        came.of_receiver.emplace_back(12, 0.0F);
        for (int micro = 0; micro < micro_batches; ++micro)
            carry(boundary, settings, step, step * micro_batches + micro, came);
        EXPECT_EQ(truestep_mapl_boundary_step(boundary, rate, nullptr, nullptr), TRUESTEP_OK);
        EXPECT_EQ(truestep_mapl_boundary_state(boundary, &state), TRUESTEP_OK) << truestep_last_error();
        came.subspaces.push_back(look(state.subspace));
        came.codebooks.push_back(look(state.codebooks));
        came.learned.push_back(look(state.learned));
    }
    came.receivers_codebooks = came.codebooks.back(); // it has been both sides
    truestep_mapl_boundary_destroy(boundary);
    return came;
}

/// The A of both senders of a pipeline with two replicas.
std::vector<Floats> of_replicas_over_ends(const Settings& settings) {
    std::vector<Floats> subspaces(2);
    const Floats start = first_subspace(6, 3, 1);
    distributed::run_peers(4, [&](Peers& peers) {
        const int replica = peers.rank() / 2;
        if (peers.rank() % 2 == 0) {
            distributed::PeerCommunicator replicas(peers, {0, 2});
            Sender sender(settings, first_state(settings, Side::sender, start, sender_anchor), peers,
                          peers.rank() + 1, &replicas);
            for (int step = 0; step < steps; ++step) {
                sender.forward(0, activations(10 * replica + step), ids(step));
                (void)sender.backward(0);
                EXPECT_TRUE(sender.end_step(0.1));
            }
            subspaces[static_cast<std::size_t>(replica)] = sender.subspace();
            return;
        }
        Receiver receiver(settings, first_state(settings, Side::receiver, start, receiver_anchor), peers,
                          peers.rank() - 1);
        for (int step = 0; step < steps; ++step) {
            (void)receiver.forward(0, tokens);
            receiver.backward(0, gradient(10 * replica + step));
            receiver.end_step();
        }
    });
    return subspaces;
}

/// The same with two handles; the caller computes the mean.
std::vector<Floats> of_replicas_over_handles(const Settings& settings) {
    std::array<truestep_mapl_boundary*, 2> boundaries{};
    std::vector<Floats> subspaces(2);
    for (truestep_mapl_boundary*& boundary : boundaries)
        EXPECT_EQ(truestep_mapl_boundary_create(text_of(settings).c_str(), nullptr, &boundary),
                  TRUESTEP_OK);
    for (int step = 0; step < steps; ++step) {
        Floats mean(18, 0.0F);
        for (int replica = 0; replica < 2; ++replica) {
            truestep_mapl_boundary* boundary = boundaries.at(static_cast<std::size_t>(replica));
            AllResults came;
            came.of_sender.emplace_back(12, 0.0F);
            came.of_receiver.emplace_back(12, 0.0F);
            carry_with(boundary, settings, step, 10 * replica + step, ids(step), came);
            truestep_values part{};
            EXPECT_EQ(truestep_mapl_boundary_part(boundary, TRUESTEP_MAPL_SENDER, &part), TRUESTEP_OK);
            Floats whole = look(part);
            EXPECT_EQ(truestep_mapl_boundary_part(boundary, TRUESTEP_MAPL_RECEIVER, &part), TRUESTEP_OK);
            const Floats theirs = look(part);
            for (std::size_t i = 0; i < mean.size(); ++i)
                mean[i] += whole[i] + theirs[i];
        }
        for (float& value : mean)
            value /= 2.0F;
        const truestep_values gradient_of_all = view(mean);
        for (truestep_mapl_boundary* boundary : boundaries) {
            int32_t stepped = 0;
            EXPECT_EQ(truestep_mapl_boundary_step_by(boundary, 0.1, &gradient_of_all, &stepped),
                      TRUESTEP_OK)
                << truestep_last_error();
            EXPECT_EQ(stepped, 1);
        }
    }
    for (std::size_t replica = 0; replica < 2; ++replica) {
        truestep_values subspace{};
        EXPECT_EQ(truestep_mapl_boundary_subspace(boundaries.at(replica), &subspace), TRUESTEP_OK);
        subspaces[replica] = look(subspace);
        truestep_mapl_boundary_destroy(boundaries.at(replica));
    }
    return subspaces;
}

TEST(MaplBoundary, StepsByTheMeanOfReplicas) {
    const std::vector<Floats> right = of_replicas_over_ends(with(Payload::fp32));
    EXPECT_EQ(right[0], right[1]);
    EXPECT_EQ(of_replicas_over_handles(with(Payload::fp32)), right);
    truestep_mapl_boundary* boundary = nullptr;
    ASSERT_EQ(truestep_mapl_boundary_create(text_of(with(Payload::fp32)).c_str(), nullptr, &boundary),
              TRUESTEP_OK);
    const Floats short_one(5, 0.0F);
    const truestep_values wrong = view(short_one);
    EXPECT_EQ(truestep_mapl_boundary_step_by(boundary, 0.1, &wrong, nullptr), TRUESTEP_ERROR);
    EXPECT_EQ(truestep_mapl_boundary_step_by(boundary, 0.1, nullptr, nullptr), TRUESTEP_ERROR);
    EXPECT_EQ(truestep_mapl_boundary_steps(boundary), 0);
    const Floats infinite(18, HUGE_VALF);
    const truestep_values not_finite = view(infinite);
    int32_t stepped = 1;
    EXPECT_EQ(truestep_mapl_boundary_step_by(boundary, 0.1, &not_finite, &stepped), TRUESTEP_OK)
        << truestep_last_error();
    EXPECT_EQ(stepped, 0);
    truestep_mapl_boundary_destroy(boundary);
}

// Data that the caller carries has the same bits as messages between sender and receiver.
TEST(MaplBoundary, HasTheBitsOfTheEnds) {
    const Quantization coded{.codewords = 6, .groups = 3, .rounds = 2, .subsets = 3, .decay = 0.75};
    for (const Settings& settings : {with(Payload::fp32), with(Payload::bf16), with(Payload::fp32, coded),
                                     with(Payload::bf16, coded)}) {
        const AllResults right = over_ends(settings);
        EXPECT_EQ(right.activations.size(), static_cast<std::size_t>(steps * micro_batches));
        EXPECT_TRUE(over_handle(0.1, settings) == right);
        EXPECT_FALSE(over_handle(0.10001, settings) == right); // the comparison can fail
    }
    EXPECT_FALSE(over_handle(0.1, with(Payload::fp32)) == over_ends(with(Payload::bf16)));
    Quantization other = coded;
    other.decay = 0.7;
    EXPECT_FALSE(over_handle(0.1, with(Payload::fp32, coded)) == over_ends(with(Payload::fp32, other)));
}

} // namespace
} // namespace truestep::abi
