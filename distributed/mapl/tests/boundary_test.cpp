// Tests a MAPL sender and receiver over messages: long runs, bad input, and failing sides.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include <Eigen/Eigenvalues>
#include <gtest/gtest.h>

#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/distributed/mapl/ends.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/reference/mapl/boundary.hpp>

namespace truestep::distributed::mapl {
namespace {

using distributed::Peers;

/// Rank 0 sends, rank 1 receives.
void both(const std::function<void(Peers&)>& sends, const std::function<void(Peers&)>& receives) {
    distributed::run_peers(2, [&](Peers& peers) { (peers.rank() == 0 ? sends : receives)(peers); });
}

std::string what(const std::function<void()>& throws) {
    try {
        throws();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

// Property 7 through messages: with the reconstruction loss alone, A finds the directions of most
// energy.
TEST(MaplEnds, FindThePrincipalSubspace) {
    const Settings settings{.width = 6, .rank = 2, .vocabulary = 1};
    const Floats start = first_subspace(6, 2, 1);
    Floats x(6 * 12);
    for (std::size_t i = 0; i < x.size(); ++i) // column j has 4^-j of the first one's energy
        x[i] = static_cast<float>(std::sin(1.0 + static_cast<double>(i * i)) *
                                  std::pow(0.5, static_cast<double>(i % 6)));
    const std::vector<Id> ids(12, 0);
    Floats learned;
    constexpr int steps = 500;
    both(
        [&](Peers& peers) {
            Sender sender(settings, first_state(settings, Side::sender, start, {}), peers, 1);
            for (int step = 0; step < steps; ++step) {
                sender.forward(0, x, ids);
                static_cast<void>(sender.backward(0));
                EXPECT_TRUE(sender.end_step(0.05 / (1.0 + 0.05 * step)));
            }
            learned = sender.subspace();
        },
        [&](Peers& peers) {
            Receiver receiver(settings, first_state(settings, Side::receiver, start, {}), peers, 0);
            for (int step = 0; step < steps; ++step) {
                Floats g = receiver.forward(0, 12).activations;
                for (std::size_t i = 0; i < g.size(); ++i)
                    g[i] -= x[i];
                receiver.backward(0, g);
                receiver.end_step();
            }
        });
    const Eigen::Map<const reference::mapl::Matrix<float>> X(x.data(), 12, 6);
    const Eigen::Map<const reference::mapl::Matrix<float>> A(learned.data(), 6, 2);
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solved(
        Eigen::MatrixXd((X.transpose() * X).cast<double>()));
    const double best = solved.eigenvalues().tail(2).sum();
    EXPECT_NEAR(static_cast<double>((X * A).squaredNorm()), best, 1e-3 * best);
}

// Property 1 with real messages: ten thousand steps.
TEST(MaplEnds, StayOnTheManifoldForTenThousandSteps) {
    for (const Order order : {Order::project_first, Order::momentum_first}) {
        const Settings settings{.width = 8, .rank = 3, .vocabulary = 1, .order = order};
        const Floats start = first_subspace(8, 3, 2);
        double worst = 0.0;
        both(
            [&](Peers& peers) {
                Sender sender(settings, first_state(settings, Side::sender, start, {}), peers, 1);
                Floats x(8);
                const std::vector<Id> ids{0};
                for (int step = 0; step < 10000; ++step) {
                    for (std::size_t i = 0; i < x.size(); ++i)
                        x[i] = static_cast<float>(std::sin(step * 0.7 + static_cast<double>(i)));
                    sender.forward(0, x, ids);
                    static_cast<void>(sender.backward(0));
                    sender.end_step(0.02);
                    worst = std::max(worst, distance_to_manifold(sender.subspace(), 3));
                }
            },
            [&](Peers& peers) {
                Receiver receiver(settings, first_state(settings, Side::receiver, start, {}), peers, 0);
                for (int step = 0; step < 10000; ++step) {
                    Floats g = receiver.forward(0, 1).activations;
                    for (std::size_t i = 0; i < g.size(); ++i)
                        g[i] += static_cast<float>(std::cos(step * 1.3 + static_cast<double>(i)));
                    receiver.backward(0, g);
                    receiver.end_step();
                }
            });
        EXPECT_LE(worst, manifold_tolerance(8, 3));
        EXPECT_GT(worst, 0.0);
    }
}

TEST(MaplEnds, WhatDiffersIsNamedOnBothSides) {
    const Settings settings{.width = 4, .rank = 2, .vocabulary = 9, .anchors = Anchors::fixed};
    const Floats start = first_subspace(4, 2, 1);
    const Floats table(18, 0.5F);
    const auto told = [&](const std::function<void(Settings&, EndState&)>& change) {
        std::string lines[2];
        both(
            [&](Peers& peers) {
                lines[0] = what(
                    [&] { Sender(settings, first_state(settings, Side::sender, start, table), peers, 1); });
            },
            [&](Peers& peers) {
                Settings other = settings;
                EndState state = first_state(settings, Side::receiver, start, table);
                change(other, state);
                lines[1] = what([&] { Receiver(other, state, peers, 0); });
            });
        EXPECT_EQ(lines[0], lines[1]);
        return lines[0];
    };
    EXPECT_EQ(told([](Settings&, EndState&) {}), "");
    EXPECT_EQ(
        told([](Settings& other, EndState&) { other.beta = 0.5; }),
        "the receiver, rank 1, has beta 0.5 where the sender, rank 0, has 0.9; start both with the same");
    EXPECT_EQ(
        told([](Settings& other, EndState&) { other.order = Order::momentum_first; }),
        "the receiver, rank 1, has order momentum_first where the sender, rank 0, has project_first; start "
        "both with the same");
    EXPECT_EQ(
        told([](Settings&, EndState& state) { state.a[0] += 0x1p-24F; }),
        "the receiver, rank 1, has another subspace than the sender, rank 0; start both with the same");
    EXPECT_EQ(told([](Settings&, EndState& state) { state.anchor[3] = 0.25F; }),
              "the receiver, rank 1, has another anchor than the sender, rank 0; start both with the same");
    EXPECT_EQ(
        told([](Settings&, EndState& state) { state.steps = 3; }),
        "the receiver, rank 1, has the step 3 where the sender, rank 0, has 0; start both with the same");
}

TEST(MaplEnds, BadInputIsALineAndNothingElse) {
    const Settings settings{.width = 2, .rank = 1, .vocabulary = 3};
    const Floats start{1.0F, 0.0F};
    const Floats x{1.0F, 2.0F};
    const float huge = std::numeric_limits<float>::max();
    both(
        [&](Peers& peers) {
            Sender sender(settings, first_state(settings, Side::sender, start, {}), peers, 1);
            const std::vector<Id> ids{2};
            const std::vector<Id> beyond{3};
            const Floats bad{1.0F, std::numeric_limits<float>::infinity()};
            EXPECT_EQ(what([&] { sender.forward(0, x, beyond); }),
                      "micro-batch 0: the id of token 0 is 3; the vocabulary is 3");
            EXPECT_EQ(what([&] { sender.forward(0, bad, ids); }),
                      "micro-batch 0 has an activation that is not finite; nothing was sent");
            EXPECT_EQ(what([&] {
                          sender.forward(0, start, std::vector<Id>{0, 1});
                      }),
                      "micro-batch 0 has 2 activations; 2 ids of width 2 make it 4");
            EXPECT_EQ(what([&] { static_cast<void>(sender.backward(0)); }),
                      "micro-batch 0 is not under way; it has to go forward first");
            sender.forward(0, x, ids);
            EXPECT_NE(what([&] { sender.forward(0, x, ids); }), "");
            EXPECT_NE(what([&] { sender.end_step(0.1); }), "");
            EXPECT_NE(what([&] { static_cast<void>(sender.state()); }), "");
            EXPECT_EQ(sender.backward(0), (Floats{1.0F, 0.0F}));
            EXPECT_NE(what([&] { sender.end_step(0.6); }), "");
            EXPECT_TRUE(sender.end_step(0.1));
        },
        [&](Peers& peers) {
            Receiver receiver(settings, first_state(settings, Side::receiver, start, {}), peers, 0);
            EXPECT_EQ(receiver.forward(0, 1).activations, (Floats{1.0F, 0.0F}));
            for (const Index micro : {0, -1})
                EXPECT_EQ(what([&] { static_cast<void>(receiver.forward(micro, 1)); }),
                          "micro-batch " + std::to_string(micro) +
                              " is in flight or negative; number micro-batches from 0, once a step");
            EXPECT_EQ(what([&] { receiver.backward(0, Floats{1.0F}); }),
                      "micro-batch 0 has a gradient of 1 values; its 1 tokens make it 2");
            EXPECT_EQ(what([&] {
                          receiver.backward(0, Floats{std::nanf(""), 0.0F});
                      }),
                      "micro-batch 0 has a gradient that is not finite; nothing was sent");
            EXPECT_NE(what([&] { receiver.end_step(); }), "");
            receiver.backward(0, start);
            receiver.end_step();
        });
    // A gradient of A that overflows: both sides keep their values.
    both(
        [&](Peers& peers) {
            Sender sender(settings, first_state(settings, Side::sender, start, {}), peers, 1);
            sender.forward(0, Floats{huge, huge}, std::vector<Id>{0});
            static_cast<void>(sender.backward(0));
            EXPECT_FALSE(sender.end_step(0.1));
            EXPECT_EQ(sender.subspace(), start);
            EXPECT_EQ(sender.state().m, Floats(2, 0.0F));
        },
        [&](Peers& peers) {
            Receiver receiver(settings, first_state(settings, Side::receiver, start, {}), peers, 0);
            static_cast<void>(receiver.forward(0, 1));
            receiver.backward(0, Floats{huge, huge});
            receiver.end_step();
            EXPECT_EQ(receiver.subspace(), start);
        });
}

// A value that would be infinite in 16 bits is not sent, either way.
TEST(MaplEnds, WhatBf16DoesNotHoldIsRefused) {
    const Settings settings{.width = 2, .rank = 1, .vocabulary = 1, .payload = Payload::bf16};
    const Floats start{1.0F, 0.0F};
    const Floats most{0x1.fep127F, 0.0F}; // the greatest number of bf16
    const Floats beyond{0x1.ffp127F, 0.0F};
    const std::vector<Id> ids{0};
    both(
        [&](Peers& peers) {
            Sender sender(settings, first_state(settings, Side::sender, start, {}), peers, 1);
            EXPECT_EQ(what([&] { sender.forward(0, beyond, ids); }),
                      "micro-batch 0 overflows when it is compressed; nothing was sent");
            sender.forward(0, most, ids);
            EXPECT_EQ(sender.backward(0), start);
        },
        [&](Peers& peers) {
            Receiver receiver(settings, first_state(settings, Side::receiver, start, {}), peers, 0);
            EXPECT_EQ(receiver.forward(0, 1).activations, most);
            EXPECT_EQ(what([&] { receiver.backward(0, beyond); }),
                      "micro-batch 0: its gradient overflows when it is compressed; nothing was sent");
            receiver.backward(0, start);
        });
}

TEST(MaplEnds, ActivationsMayBeGivenAway) {
    const Settings settings{.width = 6, .rank = 2, .vocabulary = 3, .anchors = Anchors::two};
    constexpr Index tokens = 300;
    const auto values = [](double phase, std::size_t count) {
        Floats made(count);
        for (std::size_t i = 0; i < count; ++i)
            made[i] = static_cast<float>(std::sin(phase + 0.7 * static_cast<double>(i)));
        return made;
    };
    const Floats start = first_subspace(6, 2, 1);
    const Floats table = values(5.0, 6);
    const std::vector<Id> ids(tokens, 2);
    const auto run = [&](bool away) {
        std::vector<Floats> came;
        both(
            [&](Peers& peers) {
                Sender sender(settings, first_state(settings, Side::sender, start, table), peers, 1);
                for (int step = 0; step < 3; ++step) {
                    Floats x = values(step, tokens * 6);
                    if (away)
                        sender.forward(0, std::move(x), ids);
                    else
                        sender.forward(0, x, ids);
                    static_cast<void>(sender.backward(0));
                    sender.end_step(0.1);
                }
                came.push_back(sender.subspace());
                came.push_back(sender.anchor_gradient());
            },
            [&](Peers& peers) {
                Receiver receiver(settings, first_state(settings, Side::receiver, start, table), peers, 0);
                for (int step = 0; step < 3; ++step) {
                    receiver.backward(0, receiver.forward(0, tokens).activations);
                    receiver.end_step();
                }
            });
        return came;
    };
    EXPECT_EQ(run(true), run(false));
}

// An expected message has the same bits; one that does not fit gives an error line.
TEST(MaplEnds, MessagesMayBeExpected) {
    const Settings settings{.width = 6, .rank = 2, .vocabulary = 3};
    constexpr Index tokens = 40;
    constexpr Index micro_batches = 3;
    const Floats start = first_subspace(6, 2, 1);
    const std::vector<Id> ids(tokens, 1);
    const auto run = [&](bool expects) {
        std::vector<Floats> came;
        both(
            [&](Peers& peers) {
                Sender sender(settings, first_state(settings, Side::sender, start, {}), peers, 1);
                for (int step = 0; step < 2; ++step) {
                    for (Index micro = 0; micro < micro_batches; ++micro) {
                        Floats x(tokens * 6);
                        for (std::size_t i = 0; i < x.size(); ++i)
                            x[i] = static_cast<float>(std::sin(step + 10.0 * static_cast<double>(micro) +
                                                               0.7 * static_cast<double>(i)));
                        if (expects) {
                            EXPECT_NE(what([&] { sender.expect(micro); }).find("is not under way"),
                                      std::string::npos);
                        }
                        sender.forward(micro, x, ids);
                    }
                    for (Index micro = 0; expects && micro < micro_batches; ++micro)
                        sender.expect(micro);
                    for (Index micro = 0; micro < micro_batches; ++micro)
                        came.push_back(sender.backward(micro));
                    sender.end_step(0.1);
                }
                came.push_back(sender.subspace());
            },
            [&](Peers& peers) {
                Receiver receiver(settings, first_state(settings, Side::receiver, start, {}), peers, 0);
                for (int step = 0; step < 2; ++step) {
                    for (Index micro = 0; expects && micro < micro_batches; ++micro)
                        receiver.expect(micro, tokens);
                    if (expects) {
                        EXPECT_EQ(what([&] { receiver.expect(1, tokens); }),
                                  "micro-batch 1 is expected already; call expect() once");
                        EXPECT_EQ(what([&] { static_cast<void>(receiver.forward(0, tokens + 1)); }),
                                  "micro-batch 0: expect() gave 360 bytes, receive asks for 369; pass the "
                                  "same number of tokens to both");
                        EXPECT_NE(what([&] { receiver.end_step(); }).find("are under way"),
                                  std::string::npos);
                        EXPECT_NE(what([&] { static_cast<void>(receiver.state()); }).find("are under way"),
                                  std::string::npos);
                    }
                    std::vector<Floats> all;
                    for (Index micro = 0; micro < micro_batches; ++micro)
                        all.push_back(receiver.forward(micro, tokens).activations);
                    for (Index micro = 0; micro < micro_batches; ++micro)
                        receiver.backward(micro, all[static_cast<std::size_t>(micro)]);
                    receiver.end_step();
                }
            });
        return came;
    };
    EXPECT_EQ(run(true), run(false));
}

// A state from outside is checked before the other side hears of it.
TEST(MaplEnds, AStateThatCannotBeIsRefused) {
    const Settings settings{.width = 4, .rank = 2, .vocabulary = 9, .anchors = Anchors::fixed};
    const Floats start = first_subspace(4, 2, 1);
    const auto told = [&](const std::function<void(EndState&)>& change) {
        std::string line;
        distributed::run_peers(1, [&](Peers& peers) {
            EndState state = first_state(settings, Side::sender, start, Floats(18, 0.5F));
            state.rows = anchor_rows(settings, Side::sender);
            change(state);
            line = what([&] { Sender(settings, state, peers, 0); });
        });
        return line.substr(0, line.find(':'));
    };
    EXPECT_EQ(told([](EndState& state) { state.a[0] += 0.5F; }), "the subspace is off the manifold");
    EXPECT_EQ(told([](EndState& state) { state.rows[0] += 0.5F; }), "P does not have orthonormal rows");
    EXPECT_EQ(told([](EndState& state) { state.m[7] = std::nanf(""); }), "state");
    EXPECT_EQ(told([](EndState& state) { state.anchor.pop_back(); }), "state");
}

// A side that fails ends the other, which names it.
TEST(MaplEnds, ASideThatEndsIsNamed) {
    const Settings settings{.width = 2, .rank = 1, .vocabulary = 3};
    const Floats start{1.0F, 0.0F};
    std::string line;
    EXPECT_THROW(both(
                     [&](Peers& peers) {
                         Sender sender(settings, first_state(settings, Side::sender, start, {}), peers, 1);
                         throw Error("out of tokens");
                     },
                     [&](Peers& peers) {
                         Receiver receiver(settings, first_state(settings, Side::receiver, start, {}),
                                           peers, 0);
                         try {
                             static_cast<void>(receiver.forward(0, 1));
                         } catch (const distributed::Aborted& aborted) {
                             line = aborted.what();
                         }
                     }),
                 Error);
    EXPECT_NE(line.find("rank 0"), std::string::npos) << line;
    EXPECT_NE(line.find("out of tokens"), std::string::npos) << line;
}

} // namespace
} // namespace truestep::distributed::mapl
