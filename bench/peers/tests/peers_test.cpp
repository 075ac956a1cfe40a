// Every peer beside its sequential reference, bit for bit; what it sends beside its formula, to the byte;
// and that the checks can fail.
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <scape/distributed/counting.hpp>
#include <scape/distributed/in_process.hpp>
#include <scape/problem/data.hpp>
#include <scape/problem/error.hpp>

#include "peers/arithmetic.hpp"
#include "peers/check.hpp"

namespace scape::peers {
namespace {

using distributed::run_ranks;

Setting setting_of(Index size, double density) {
    return {size, density, {}};
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
    run_ranks(ranks, [&, peer = name, share = density](Communicator& communicator) {
        // More steps than Ok-Topk's period; an odd size, and one that leaves the last rank little.
        for (const Index size : {Index{1037}, Index{64 * 3 + 1}})
            EXPECT_EQ(wrong_parameters(peer, setting_of(size, share), communicator, 40), 0) << size;
    });
}

TEST_P(EveryPeer, SendsWhatItsFormulaSays) {
    const auto& [name, ranks, density] = GetParam();
    const Setting setting = setting_of(4099, density);
    run_ranks(ranks, [&, peer_name = name](Communicator& inner) {
        distributed::CountingCommunicator communicator(inner);
        const std::vector<float> start(static_cast<std::size_t>(setting.size), 1.0F);
        const auto peer = make_peer(peer_name, setting, communicator, start);
        double sent = 0;
        constexpr int steps = 6;
        for (int step = 0; step <= steps; ++step) {
            std::vector<float> gradient;
            for (Index index = 0; index < setting.size; ++index)
                gradient.push_back(
                    problem::gradient_value(problem::DataClass::normal, 3, inner.rank(), step + 1, index));
            communicator.reset();
            peer->step(gradient, 1e-3);
            peer->finish();
            for (const std::uint64_t bytes : communicator.bytes())
                sent += step == 0 ? 0.0 : static_cast<double>(bytes);
        }
        const double expected = steps * formula_bytes(peer_name, setting, inner.size(), inner.rank());
        if (kind_of(peer_name).fixed_size)
            EXPECT_EQ(sent, expected);
        else
            EXPECT_LE(sent,
                      1.5 * 1.25 * expected + steps * 8.0 * inner.size()); // 6k words, k a quarter off
    });
}

INSTANTIATE_TEST_SUITE_P(All, EveryPeer,
                         testing::Combine(testing::ValuesIn(names()), testing::Values(1, 2, 3, 4, 7),
                                          testing::Values(0.1, 0.01)),
                         title);

TEST(Peers, ReplicasAreTheSameBits) {
    for (const Kind& kind : kinds()) {
        std::mutex mutex;
        std::vector<std::vector<float>> found;
        run_ranks(3, [&](Communicator& communicator) {
            const Setting setting = setting_of(777, 0.05);
            const std::vector<float> start(777, 0.5F);
            const auto peer = make_peer(kind.name, setting, communicator, start);
            std::vector<float> gradient;
            for (Index index = 0; index < setting.size; ++index)
                gradient.push_back(
                    problem::gradient_value(problem::DataClass::normal, 5, communicator.rank(), 1, index));
            for (int step = 0; step < 5; ++step)
                peer->step(gradient, 1e-2);
            peer->finish();
            const std::scoped_lock lock(mutex);
            found.emplace_back(peer->parameters().begin(), peer->parameters().end());
        });
        EXPECT_EQ(found[0], found[1]) << kind.name;
        EXPECT_EQ(found[0], found[2]) << kind.name;
    }
}

TEST(Peers, TheCheckSeesARankWhoseGradientIsLost) {
    /// Sends zeros in the place of rank 1's gradients.
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
    for (const Kind& kind : kinds())
        run_ranks(3, [&](Communicator& inner) {
            Lossy communicator(inner);
            EXPECT_GT(wrong_parameters(kind.name, setting_of(500, 0.1), communicator, 3), 0) << kind.name;
        });
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
} // namespace scape::peers
