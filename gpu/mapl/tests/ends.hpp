#pragma once

// A boundary's two ends in one process, to be compared with the host's.

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/distributed/mapl/ends.hpp>
#include <truestep/gpu/mapl/devices.hpp>

namespace truestep::gpu::mapl {

/// The peers and the backend of an end, or null for the host's.
struct EndResources {
    std::unique_ptr<distributed::Peers> peers;
    std::unique_ptr<Backend> backend;
};
using Builds = std::function<EndResources(distributed::Peers&)>;

/// Everything that was observed of a step.
struct StepResults {
    std::vector<Floats> xhat, dx;
    std::vector<Id> ids;
    bool finite = true;
    Floats gradient, a, m, senders_anchor, receivers_anchor, codebooks, learned;
    friend bool operator==(const StepResults&, const StepResults&) = default;
};

inline Floats wave(std::size_t size, float of) {
    Floats values(size);
    for (std::size_t i = 0; i < size; ++i)
        values[i] = std::sin(of + 1.7F * static_cast<float>(i));
    return values;
}

inline std::vector<Id> some_ids(Index tokens, Index vocabulary, Index of) {
    std::vector<Id> ids(static_cast<std::size_t>(tokens));
    for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] =
            static_cast<Id>((i * i + static_cast<std::size_t>(of)) % static_cast<std::size_t>(vocabulary));
    return ids;
}

struct States {
    EndState sender, receiver;
};

inline States first_states(const Settings& settings) {
    const Floats start = first_subspace(settings.width, settings.rank, 1);
    const auto anchored = settings.anchors == Anchors::none
                              ? Floats()
                              : wave(static_cast<std::size_t>(settings.vocabulary * settings.rank), 0.3F);
    return {first_state(settings, Side::sender, start, anchored),
            first_state(settings, Side::receiver, start, anchored)};
}

/// Plays `steps` steps of two micro-batches each from `states`, which become those behind them, and
/// returns the last one.
inline StepResults played_from(States& states, const Settings& settings, const Builds& build, Index tokens,
                               int steps) {
    StepResults shown;
    const auto begin = static_cast<int>(states.sender.steps);
    const auto size = static_cast<std::size_t>(tokens * settings.width);
    constexpr Index micros = 2;
    distributed::run_peers(2, [&](distributed::Peers& ranks) {
        EndResources house = build(ranks);
        distributed::Peers& peers = house.peers ? *house.peers : ranks;
        if (ranks.rank() == 0) {
            Sender sender(settings, states.sender, peers, 1, nullptr, std::move(house.backend));
            for (int step = begin; step < begin + steps; ++step) {
                shown.dx.clear();
                for (Index micro = 0; micro < micros; ++micro)
                    sender.forward(micro, wave(size, static_cast<float>(10 * step + micro)),
                                   some_ids(tokens, settings.vocabulary, micro));
                for (Index micro = 0; micro < micros; ++micro)
                    shown.dx.push_back(sender.backward(micro));
                shown.finite = sender.end_step(0.1) && shown.finite;
            }
            shown.gradient = sender.subspace_gradient();
            shown.senders_anchor = sender.anchor_gradient();
            states.sender = sender.state();
            shown.a = states.sender.a;
            shown.m = states.sender.m;
            shown.codebooks = states.sender.codebooks;
            shown.learned = states.sender.learned;
        } else {
            Receiver receiver(settings, states.receiver, peers, 0, std::move(house.backend));
            for (int step = begin; step < begin + steps; ++step) {
                shown.xhat.clear();
                for (Index micro = 0; micro < micros; ++micro) {
                    Receiver::ReceivedActivations arrived = receiver.forward(micro, tokens);
                    shown.ids.insert(shown.ids.end(), arrived.ids.begin(), arrived.ids.end());
                    shown.xhat.push_back(std::move(arrived.activations));
                }
                for (Index micro = 0; micro < micros; ++micro)
                    receiver.backward(micro, wave(size, static_cast<float>(50 * step + micro)));
                receiver.end_step();
            }
            shown.receivers_anchor = receiver.anchor_gradient();
            states.receiver = receiver.state();
            EXPECT_EQ(states.receiver.steps, begin + steps);
        }
    });
    return shown;
}

inline StepResults played(const Settings& settings, const Builds& build, Index tokens, int steps) {
    States states = first_states(settings);
    return played_from(states, settings, build, tokens, steps);
}

inline EndResources on_host(distributed::Peers&) {
    return {};
}

/// One setting for each kind of boundary.
inline std::vector<Settings> kinds(Index width, Index rank) {
    std::vector<Settings> all;
    for (const Anchors anchors : {Anchors::none, Anchors::fixed, Anchors::shared, Anchors::two})
        for (const Payload payload : {Payload::fp32, Payload::bf16})
            all.push_back({.width = width,
                           .rank = rank,
                           .vocabulary = 7,
                           .anchors = anchors,
                           .order = payload == Payload::fp32 ? Order::project_first : Order::momentum_first,
                           .payload = payload});
    all.push_back({.width = width, .rank = rank, .vocabulary = 300, .anchors = Anchors::two});
    all.back().quantization = {.codewords = 6, .groups = rank, .rounds = 2, .subsets = 3, .decay = 0.8};
    return all;
}

inline void near(const Floats& right, const Floats& values, const char* what) {
    ASSERT_EQ(right.size(), values.size()) << what;
    for (std::size_t i = 0; i < right.size(); ++i)
        ASSERT_NEAR(right[i], values[i], 2e-5F * (1.0F + std::fabs(right[i]))) << what << " " << i;
}

inline void near(const StepResults& right, const StepResults& shown) {
    EXPECT_TRUE(right.finite && shown.finite);
    EXPECT_EQ(right.ids, shown.ids);
    for (std::size_t micro = 0; micro < right.xhat.size(); ++micro) {
        near(right.xhat[micro], shown.xhat.at(micro), "Xhat");
        near(right.dx[micro], shown.dx.at(micro), "dX");
    }
    near(right.gradient, shown.gradient, "the gradient of A");
    near(right.a, shown.a, "A");
    near(right.m, shown.m, "m");
    near(right.senders_anchor, shown.senders_anchor, "the sender's dE");
    near(right.receivers_anchor, shown.receivers_anchor, "the receiver's dE");
    near(right.codebooks, shown.codebooks, "C");
    near(right.learned, shown.learned, "L");
}

inline float greatest(const Floats& values) {
    float most = 0.0F;
    for (const float value : values)
        most = std::max(most, std::fabs(value));
    return most;
}
inline float farthest(const Floats& one, const Floats& other) {
    Floats apart(one.size());
    std::ranges::transform(one, other, apart.begin(), std::minus());
    return greatest(apart);
}

/// A few steps of the tested ends. The host makes each of them again from the state in which they
/// began it, and has to come as close as products round. Runs that go on by themselves come farther
/// apart, step for step: `all`. It is `grown`, how far two runs of the host come apart that begin in
/// the two states.
inline void each_step_alone(const Settings& settings, const Builds& build, Index tokens) {
    constexpr float of_product = 5e-5F;
    const float of_tokens = 4e-6F * static_cast<float>(tokens); // a sum over tokens, whose terms are near 1
    States tested = first_states(settings);
    States right = tested;
    for (int step = 1; step <= 3; ++step) {
        States again = tested;
        const StepResults alone = played_from(again, settings, on_host, tokens, 1);
        const StepResults shown = played_from(tested, settings, build, tokens, 1);
        const StepResults all = played_from(right, settings, on_host, tokens, 1);
        std::ostringstream text;
        const auto compare = [&](const char* what, float bound, const auto& of) {
            const float apart = farthest(of(alone), of(shown));
            EXPECT_LE(apart, bound) << name(settings.anchors) << ", step " << step << ", " << what;
            text << "; " << what << " " << apart << ", " << farthest(of(all), of(shown)) << ", "
                 << farthest(of(all), of(alone)) << " of " << greatest(of(alone));
        };
        compare("Xhat", of_product, [](const StepResults& of) -> const Floats& { return of.xhat.back(); });
        compare("dX", of_product, [](const StepResults& of) -> const Floats& { return of.dx.back(); });
        compare("gradient", of_tokens, [](const StepResults& of) -> const Floats& { return of.gradient; });
        compare("m", of_tokens, [](const StepResults& of) -> const Floats& { return of.m; });
        compare("A", of_product, [](const StepResults& of) -> const Floats& { return of.a; });
        if (!(all == shown))
            std::cout << name(settings.anchors) << ", step " << step << ", alone, all, grown" << text.str()
                      << "\n";
    }
}

} // namespace truestep::gpu::mapl
