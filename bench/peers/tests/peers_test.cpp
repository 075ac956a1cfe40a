// Compares every peer with its sequential reference, bit for bit, and its bytes with the formula;
// and shows that the checks can fail.
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/counting.hpp>
#include <truestep/distributed/counting_peers.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/problem/error.hpp>

#include "peers/arithmetic.hpp"
#include "peers/check.hpp"
#include "peers/links.hpp"

namespace truestep::peers {
namespace {

/// Rounds of three steps, so that one step is neither the first nor the last.
Setting setting_of(Index size, double density) {
    return {size, density, {}, 3};
}

std::vector<float> gradient_of(Index size, std::uint64_t seed, int rank, Index step) {
    std::vector<float> gradient;
    for (Index index = 0; index < size; ++index)
        gradient.push_back(problem::gradient_value(problem::DataClass::normal, seed, rank, step, index));
    return gradient;
}

/// The bytes that each rank sends in a few rounds after the first.
struct Sent {
    double mine = 0;
    double all = 0;
};
Sent sent_in(const std::string& name, const Setting& setting, int rounds, const Links& links) {
    distributed::CountingCommunicator all(links.all);
    distributed::CountingPeers each(links.each);
    const std::vector<float> start(static_cast<std::size_t>(setting.size), 1.0F);
    const auto peer = make_peer(name, setting, {all, each}, start);
    const Index steps = inner_steps(kind_of(name), setting);
    Sent sent;
    for (Index step = 1; step <= (1 + rounds) * steps; ++step) {
        all.reset();
        each.reset();
        peer->step(gradient_of(setting.size, 3, links.all.rank(), step), 1e-3);
        peer->finish();
        if (step <= steps)
            continue;
        for (const std::uint64_t bytes : all.bytes())
            sent.mine += static_cast<double>(bytes);
        for (const std::uint64_t bytes : each.bytes())
            sent.mine += static_cast<double>(bytes);
    }
    for (const double of_rank : distributed::gather_records(links.all, sent.mine))
        sent.all += of_rank;
    return sent;
}

using Case = std::tuple<std::string, int, double>;

std::vector<std::string> names() {
    std::vector<std::string> result;
    for (const Kind& kind : kinds())
        result.emplace_back(kind.name);
    return result;
}

std::string title(const testing::TestParamInfo<Case>& info) {
    const auto& [name, ranks, density] = info.param;
    std::string result =
        name + "_" + std::to_string(ranks) + "_" + std::to_string(static_cast<int>(density * 1000));
    std::erase(result, '-');
    return result;
}

class EveryPeer : public testing::TestWithParam<Case> {};

TEST_P(EveryPeer, EqualsItsReferenceInEveryBitOfEveryStep) {
    const auto& [name, ranks, density] = GetParam();
    run_linked(ranks, [&, peer = name, share = density](const Links& links) {
        // More steps than Ok-Topk's period; an odd size, and one that leaves little for the last
        // rank.
        for (const Index size : {Index{1037}, Index{64 * 3 + 1}})
            EXPECT_EQ(wrong_parameters(peer, setting_of(size, share), links, 40), 0) << size;
    });
}

TEST_P(EveryPeer, SendsWhatItsFormulaSays) {
    const auto& [name, ranks, density] = GetParam();
    const Setting setting = setting_of(4099, density);
    run_linked(ranks, [&, peer = name](const Links& links) {
        constexpr int rounds = 6;
        const int size = links.all.size();
        const Sent sent = sent_in(peer, setting, rounds, links);
        const double expected = rounds * formula_bytes(peer, setting, size, links.all.rank());
        if (!kind_of(peer).fixed_size) {
            EXPECT_LE(sent.mine, 1.5 * 1.25 * expected + rounds * 8.0 * size); // 6k words, k a quarter off
            return;
        }
        EXPECT_EQ(sent.all, rounds * formula_bytes(peer, setting, size));
        const bool one_idles = peer == "gasloc" && size % 2 == 1; // another one in each round
        if (!one_idles) {
            EXPECT_EQ(sent.mine, expected);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(All, EveryPeer,
                         testing::Combine(testing::ValuesIn(names()), testing::Values(1, 2, 3, 4, 7),
                                          testing::Values(0.1, 0.01)),
                         title);

TEST(Peers, EveryLawOfGaslocSendsWhatItsFormulaSays) {
    for (const problem::gasloc::Law law : problem::gasloc::all_laws)
        for (const int ranks : {1, 2, 3, 4, 6, 8}) {
            const bool power = std::has_single_bit(static_cast<unsigned>(ranks));
            if (law == problem::gasloc::Law::given || (law == problem::gasloc::Law::hypercube && !power))
                continue;
            Setting setting = setting_of(101, 0.01);
            setting.law = law;
            run_linked(ranks, [&](const Links& links) {
                constexpr int rounds = 6; // a multiple of all periods
                EXPECT_EQ(sent_in("gasloc", setting, rounds, links).all,
                          rounds * formula_bytes("gasloc", setting, ranks))
                    << problem::gasloc::name(law) << ' ' << ranks;
            });
        }
}

TEST(Peers, ReplicasAreTheSameBitsWhereAPeerSaysSo) {
    for (const Kind& kind : kinds()) {
        std::mutex mutex;
        std::vector<std::vector<float>> found;
        run_linked(3, [&](const Links& links) {
            const Setting setting = setting_of(777, 0.05);
            const std::vector<float> start(777, 0.5F);
            const auto peer = make_peer(kind.name, setting, links, start);
            const std::vector<float> gradient = gradient_of(777, 5, links.all.rank(), 1);
            for (int step = 0; step < 6; ++step) // two rounds
                peer->step(gradient, 1e-2);
            peer->finish();
            const std::scoped_lock lock(mutex);
            found.emplace_back(peer->parameters().begin(), peer->parameters().end());
        });
        EXPECT_EQ(found[0] == found[1], kind.replicas) << kind.name;
        EXPECT_EQ(found[0] == found[2], kind.replicas) << kind.name;
    }
}

TEST(Peers, ALocalPeerSendsOnlyAtTheEndOfARound) {
    for (const char* name : {"diloco", "gasloc"})
        run_linked(2, [&](const Links& links) {
            distributed::CountingCommunicator all(links.all);
            distributed::CountingPeers each(links.each);
            const auto peer =
                make_peer(name, setting_of(64, 0.01), {all, each}, std::vector<float>(64, 1.0F));
            all.reset();
            each.reset();
            for (int step = 1; step <= 6; ++step) {
                peer->step(std::vector<float>(64, 0.5F), 1e-3);
                const Bytes to_all = all.bytes();
                const Bytes to_each = each.bytes();
                const auto sent = std::accumulate(to_all.begin(), to_all.end(), std::uint64_t{0}) +
                                  std::accumulate(to_each.begin(), to_each.end(), std::uint64_t{0});
                EXPECT_EQ(sent, static_cast<std::uint64_t>(step / 3 * 64 * 4)) << name << ' ' << step;
            }
        });
}

TEST(Peers, TheCheckSeesARankWhoseGradientIsLost) {
    /// Sends zeros instead of rank 1's gradients.
    class Lossy final : public distributed::Communicator {
      public:
        explicit Lossy(Communicator& inner) : inner_(inner) {}
        [[nodiscard]] int rank() const override { return inner_.rank(); }
        [[nodiscard]] int size() const override { return inner_.size(); }
        [[nodiscard]] std::string name() const override { return "lossy"; }
        std::unique_ptr<distributed::Exchange> start_all_to_all(Traffic traffic, const void* send,
                                                                Sizes send_sizes, void* receive,
                                                                Sizes receive_sizes) override {
            return inner_.start_all_to_all(traffic, instead_of(traffic, send, send_sizes), send_sizes,
                                           receive, receive_sizes);
        }
        std::unique_ptr<distributed::Exchange> start_all_gather(Traffic traffic, const void* send,
                                                                void* receive, Sizes sizes) override {
            const bool lost = lossy(traffic) && traffic == Traffic::gradient;
            const std::size_t own = sizes[static_cast<std::size_t>(rank())];
            zeros_.assign(own, 0);
            return inner_.start_all_gather(traffic, lost ? zeros_.data() : send, receive, sizes);
        }
        std::unique_ptr<distributed::Exchange> start_reduce_scatter(Traffic traffic, const float* send,
                                                                    float* receive, Sizes sizes) override {
            return inner_.start_reduce_scatter(traffic, send, receive, sizes);
        }
        void progress() override { inner_.progress(); }
        void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

      private:
        [[nodiscard]] bool lossy(Traffic traffic) const {
            return rank() == 1 && (traffic == Traffic::gradient || traffic == Traffic::payload);
        }
        const void* instead_of(Traffic traffic, const void* send, Sizes sizes) {
            if (!lossy(traffic))
                return send;
            std::size_t total = 0;
            for (const std::size_t size : sizes)
                total += size;
            zeros_.assign(total, 0);
            return zeros_.data();
        }
        Communicator& inner_;
        std::vector<char> zeros_;
    };
    /// Sends zeros instead of rank 1's vectors.
    class LossyPeers final : public distributed::Peers {
      public:
        explicit LossyPeers(distributed::Peers& inner) : inner_(inner) {}
        [[nodiscard]] int rank() const override { return inner_.rank(); }
        [[nodiscard]] int size() const override { return inner_.size(); }
        [[nodiscard]] std::string name() const override { return "lossy"; }
        void send(Traffic traffic, int peer, std::uint64_t number, std::shared_ptr<const void> message,
                  std::size_t bytes) override {
            if (rank() == 1 && traffic == Traffic::parameters)
                message = std::make_shared<char[]>(bytes);
            inner_.send(traffic, peer, number, std::move(message), bytes);
        }
        [[nodiscard]] std::unique_ptr<distributed::IncomingMessage>
        receive(Traffic traffic, int peer, std::uint64_t number, std::size_t bytes) override {
            return inner_.receive(traffic, peer, number, bytes);
        }
        void progress() override { inner_.progress(); }
        void leave(const std::string& reason) noexcept override { inner_.leave(reason); }

      private:
        distributed::Peers& inner_;
    };
    for (const Kind& kind : kinds())
        run_linked(3, [&](const Links& links) {
            Lossy all(links.all);
            LossyPeers each(links.each);
            const Index wrong = wrong_parameters(kind.name, setting_of(500, 0.1), {all, each}, 3);
            // For gasloc, only workers that have met rank 1, in three rounds of pairs, are wrong.
            Index of_all = 0;
            for (const Index of_rank : distributed::gather_records(links.all, wrong))
                of_all += of_rank;
            EXPECT_GT(kind.replicas ? wrong : of_all, 0) << kind.name;
        });
}

TEST(Peers, ScapeTakesTensorsAndADensityThatFalls) {
    Setting setting = setting_of(500, 0.05);
    setting.tensors = {{"a", 301}, {"norm", 40, true}, {"b", 159}};
    setting.density_warm_up = 3;
    run_linked(3, [&](const Links& links) {
        EXPECT_EQ(wrong_parameters("scape", setting, links, 6), 0);
        // The run differs from those with one tensor, and with one density.
        const auto after = [&](const Setting& other) {
            const std::vector<float> start(500, 1.0F);
            const auto peer = make_peer("scape", other, links, start);
            for (Index step = 1; step <= 3; ++step)
                peer->step(gradient_of(500, 3, links.all.rank(), step), 1e-3);
            return std::vector<float>(peer->parameters().begin(), peer->parameters().end());
        };
        Setting one_tensor = setting;
        one_tensor.tensors.clear();
        Setting constant = setting;
        constant.density_warm_up = 0;
        EXPECT_NE(after(setting), after(one_tensor));
        EXPECT_NE(after(setting), after(constant));
    });
}

TEST(Peers, WhatANumberMeansIsItsKindsOwn) {
    EXPECT_EQ(parse("scape:0.1", 7).setting.density, 0.1);
    EXPECT_EQ(parse("scape", 7).setting.density, 0.01);
    EXPECT_EQ(parse("gasloc:100", 7).setting.inner_steps, 100);
    EXPECT_EQ(parse("diloco", 7).setting.inner_steps, 30);
    EXPECT_EQ(parse("diloco:5", 7).kind->name, "diloco");
    EXPECT_EQ(parse("dense", 7).setting.size, 7);
    const auto refusal = [](const char* text) {
        try {
            static_cast<void>(parse(text, 7));
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("none");
    };
    EXPECT_EQ(refusal("dense:0.1"), "peer is 'dense:0.1'; dense takes no number");
    const std::string density = "its density must be a number in (0, 1]";
    for (const char* text : {"scape:0", "scape:1.5", "scape:", "scape:x", "scape:0.1x", "topk-indices:nan"})
        EXPECT_EQ(refusal(text), "peer is '" + std::string(text) + "'; " + density);
    const std::string steps = "its inner steps must be a whole number from 1 to 10000";
    for (const char* text :
         {"gasloc:0", "gasloc:-3", "gasloc:0.1", "diloco:", "diloco:1e1", "diloco:10001"})
        EXPECT_EQ(refusal(text), "peer is '" + std::string(text) + "'; " + steps);
}

TEST(Peers, AnUnknownNameIsRefusedWithTheNames) {
    try {
        static_cast<void>(kind_of("topk"));
        FAIL();
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("topk-indices, ok-topk"), std::string::npos);
    }
}

TEST(Bf16, RoundsToNearestEven) {
    EXPECT_EQ(from_bf16(to_bf16(1.0F)), 1.0F);
    EXPECT_EQ(from_bf16(to_bf16(1.0F + 0x1p-8F)), 1.0F);           // half way, down to even
    EXPECT_EQ(from_bf16(to_bf16(1.0F + 0x3p-8F)), 1.0F + 0x1p-6F); // half way, up to even
    EXPECT_EQ(from_bf16(to_bf16(-1.0F - 0x1.02p-8F)), -1.0F - 0x1p-7F);
}

} // namespace
} // namespace truestep::peers
