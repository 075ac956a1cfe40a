// Tests that every exchange is counted, and that no disturbance of exchanges changes a result.
#include <truestep/distributed/counting.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/distributed/in_process.hpp>

namespace truestep::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

std::size_t as_size(int value) {
    return static_cast<std::size_t>(value);
}

std::size_t index(Traffic traffic) {
    return static_cast<std::size_t>(traffic);
}

/// Each rank's part is one int, 100 * step + rank.
class Gather {
  public:
    Gather(Communicator& communicator, Traffic traffic, int step)
        : step_(step), values_(as_size(communicator.size()), -1), sizes_(values_.size(), sizeof(int)) {
        int& own = values_[as_size(communicator.rank())];
        own = step * 100 + communicator.rank();
        exchange_ = communicator.start_all_gather(traffic, &own, values_.data(), sizes_);
        std::ranges::fill(sizes_, 0); // the sizes belong to the caller again at once
    }
    void wait() {
        exchange_->wait();
        for (int rank = 0; rank < static_cast<int>(values_.size()); ++rank)
            ASSERT_EQ(values_[as_size(rank)], step_ * 100 + rank);
    }
    [[nodiscard]] const std::vector<int>& values() const { return values_; }

  private:
    int step_;
    std::vector<int> values_;
    std::vector<std::size_t> sizes_;
    std::unique_ptr<Exchange> exchange_;
};

/// Steps as the optimizer takes them, with the mask joined one step later. Returns the computed
/// values.
std::vector<float> steps(Communicator& communicator) {
    const auto ranks = as_size(communicator.size());
    const std::vector<std::size_t> sizes(ranks, sizeof(float));
    std::vector<float> results;
    std::unique_ptr<Gather> mask;
    for (int step = 0; step < 20; ++step) {
        if (mask)
            mask->wait();
        mask = std::make_unique<Gather>(communicator, Traffic::mask, step);
        std::vector<float> send(ranks);
        std::iota(send.begin(), send.end(), static_cast<float>(communicator.rank() * step));
        std::vector<float> received(ranks);
        communicator.start_all_to_all(Traffic::payload, send.data(), sizes, received.data(), sizes)->wait();
        results.insert(results.end(), received.begin(), received.end());
        float sum = 0;
        communicator.start_reduce_scatter(Traffic::gradient, send.data(), &sum, sizes)->wait();
        results.push_back(sum);
        Gather(communicator, Traffic::moment, step).wait();
    }
    mask->wait();
    return results;
}

TEST(Counting, CountsWhatGoesToOthers) {
    run_ranks(3, [](Communicator& inner) {
        CountingCommunicator communicator(inner);
        const int rank = communicator.rank();
        EXPECT_EQ(communicator.size(), 3);
        EXPECT_EQ(communicator.name(), "in_process");
        EXPECT_THAT(communicator.bytes(), Each(0));

        std::vector<std::byte> send(64);
        std::vector<std::byte> receive(64);
        const std::vector<std::size_t> sent{as_size(rank), as_size(rank), as_size(rank)};
        communicator
            .start_all_to_all(Traffic::payload, send.data(), sent, receive.data(),
                              std::vector<std::size_t>{0, 1, 2})
            ->wait();
        EXPECT_EQ(communicator.bytes(Traffic::payload), 2 * as_size(rank)) << "not what stays";

        const std::vector<std::size_t> parts{4, 0, 8};
        for (int i = 0; i < 2; ++i)
            communicator.start_all_gather(Traffic::mask, send.data(), receive.data(), parts)->wait();
        EXPECT_EQ(communicator.bytes(Traffic::mask), 4 * parts.at(as_size(rank)));

        const std::vector<float> values(3);
        float sum = 0;
        const std::vector<std::size_t> floats{4, 4, 4};
        communicator.start_reduce_scatter(Traffic::gradient, values.data(), &sum, floats)->wait();
        EXPECT_EQ(communicator.bytes(Traffic::gradient), 8U);

        EXPECT_THAT(communicator.exchanges(), ElementsAre(0, 1, 0, 2, 1, 0));
        EXPECT_EQ(communicator.exchanges(Traffic::mask), 2U);
        communicator.reset();
        EXPECT_THAT(communicator.bytes(), Each(0));
        EXPECT_THAT(communicator.exchanges(), Each(0));
    });
}

TEST(Counting, ADelayLastsUntilTheTimeIsOver) {
    run_ranks(2, [](Communicator& inner) {
        Disturbance disturbance;
        disturbance.delay[index(Traffic::mask)] = 60ms;
        CountingCommunicator communicator(inner, disturbance);
        const auto begin = std::chrono::steady_clock::now();
        Gather mask(communicator, Traffic::mask, 1);
        for (int step = 0; step < 5; ++step)
            Gather(communicator, Traffic::payload, step).wait();
        mask.wait();
        EXPECT_GE(std::chrono::steady_clock::now() - begin, 60ms);
    });
}

TEST(Counting, EveryKindOfExchangeMayBeDisturbedInEveryWay) {
    run_ranks(2, [](Communicator& inner) {
        Disturbance disturbance;
        disturbance.delay.fill(60ms);
        disturbance.late_start.fill(1);
        disturbance.hold_back.fill(true);
        CountingCommunicator communicator(inner, disturbance);
        const std::vector<float> send(2);
        std::vector<float> receive(2);
        const std::vector<std::size_t> sizes(2, sizeof(float));
        const std::vector<Stretch> each{{0, 4}, {4, 4}};
        constexpr auto kind = Traffic::payload;
        const std::vector<std::function<std::unique_ptr<Exchange>()>> starts{
            [&] { return communicator.start_all_to_all(kind, send.data(), sizes, receive.data(), sizes); },
            [&] { return communicator.start_all_to_owners(kind, send.data(), sizes, {}, receive.data()); },
            [&] { return communicator.start_stretches(kind, send.data(), each, receive.data(), each); },
            [&] { return communicator.start_all_gather(kind, send.data(), receive.data(), sizes); },
            [&] { return communicator.start_reduce_scatter(kind, send.data(), receive.data(), sizes); }};
        for (std::size_t start = 0; start < starts.size(); ++start) {
            const auto begin = std::chrono::steady_clock::now();
            starts[start]()->wait();
            EXPECT_GE(std::chrono::steady_clock::now() - begin, 60ms) << "kind " << start;
        }
    });
}

TEST(Counting, WhatIsHeldBackShowsOnlyInWait) {
    run_ranks(3, [](Communicator& inner) {
        Disturbance disturbance;
        disturbance.hold_back.fill(true);
        CountingCommunicator communicator(inner, disturbance);
        Gather mask(communicator, Traffic::mask, 1);
        Gather(communicator, Traffic::payload, 2).wait();
        communicator.progress();
        for (int rank = 0; rank < 3; ++rank)
            EXPECT_EQ(mask.values()[as_size(rank)],
                      rank == communicator.rank() ? 100 + rank : static_cast<int>(0xA5A5A5A5));
        mask.wait();
    });
}

/// An inner communicator that records the order in which exchanges really start and end.
class Witness final : public Communicator {
  public:
    struct Event {
        char what;
        Traffic traffic;
        bool operator==(const Event&) const = default;
    };
    explicit Witness(Communicator& inner) : inner_(inner) {}
    [[nodiscard]] int rank() const override { return inner_.rank(); }
    [[nodiscard]] int size() const override { return inner_.size(); }
    [[nodiscard]] std::string name() const override { return inner_.name(); }
    std::unique_ptr<Exchange> start_all_to_all(Traffic, const void*, Sizes, void*, Sizes) override {
        return {};
    }
    std::unique_ptr<Exchange> start_reduce_scatter(Traffic, const float*, float*, Sizes) override {
        return {};
    }
    std::unique_ptr<Exchange> start_all_gather(Traffic traffic, const void* send, void* receive,
                                               Sizes sizes) override {
        events.push_back({'s', traffic});
        return std::make_unique<WitnessedExchange>(*this, traffic,
                                                   inner_.start_all_gather(traffic, send, receive, sizes));
    }
    void progress() override {}
    void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

    std::vector<Event> events;

  private:
    class WitnessedExchange final : public Exchange {
      public:
        WitnessedExchange(Witness& witness, Traffic traffic, std::unique_ptr<Exchange> exchange)
            : witness_(witness), traffic_(traffic), exchange_(std::move(exchange)) {}
        void wait() override {
            exchange_->wait();
            witness_.events.push_back({'w', traffic_});
        }

      private:
        Witness& witness_;
        Traffic traffic_;
        std::unique_ptr<Exchange> exchange_;
    };

    Communicator& inner_;
};

TEST(Counting, LaterExchangesOvertakeALateStart) {
    run_ranks(2, [](Communicator& inner) {
        Witness witness(inner);
        Disturbance disturbance;
        disturbance.late_start[index(Traffic::mask)] = 3;
        CountingCommunicator communicator(witness, disturbance);
        Gather mask(communicator, Traffic::mask, 1);
        Gather(communicator, Traffic::payload, 2).wait();
        Gather(communicator, Traffic::moment, 3).wait();
        mask.wait();
        Gather(communicator, Traffic::mask, 4).wait(); // at once, by waiting
        EXPECT_THAT(witness.events,
                    ElementsAre(Witness::Event{'s', Traffic::payload},
                                Witness::Event{'w', Traffic::payload}, Witness::Event{'s', Traffic::mask},
                                Witness::Event{'s', Traffic::moment}, Witness::Event{'w', Traffic::moment},
                                Witness::Event{'w', Traffic::mask}, Witness::Event{'s', Traffic::mask},
                                Witness::Event{'w', Traffic::mask}));
    });
}

TEST(Counting, NewestFirstCompletesInTheOtherOrder) {
    run_ranks(2, [](Communicator& inner) {
        Witness witness(inner);
        Disturbance disturbance;
        disturbance.newest_first = true;
        CountingCommunicator communicator(witness, disturbance);
        Gather mask(communicator, Traffic::mask, 1);
        Gather payload(communicator, Traffic::payload, 2);
        Gather moment(communicator, Traffic::moment, 3);
        mask.wait();
        payload.wait();
        moment.wait();
        ASSERT_EQ(witness.events.size(), 6U);
        EXPECT_EQ(witness.events[3], (Witness::Event{'w', Traffic::moment}));
        EXPECT_EQ(witness.events[4], (Witness::Event{'w', Traffic::payload}));
        EXPECT_EQ(witness.events[5], (Witness::Event{'w', Traffic::mask}));
    });
}

class CountingDisturbs : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, CountingDisturbs, ::testing::Values(1, 2, 3, 5));

TEST_P(CountingDisturbs, NoDisturbanceChangesAResult) {
    std::vector<Disturbance> disturbances(6);
    disturbances[1].delay.fill(1ms);
    disturbances[2].late_start[index(Traffic::mask)] = 2;
    disturbances[3].late_start = {1, 2, 3, 4, 5, 6};
    disturbances[3].hold_back.fill(true);
    disturbances[4].newest_first = true;
    disturbances[5].newest_first = true;
    disturbances[5].hold_back.fill(true);
    disturbances[5].late_start[index(Traffic::mask)] = 100; // only when it is waited for
    run_ranks(GetParam(), [&](Communicator& inner) {
        const auto expected = steps(inner);
        for (const Disturbance& disturbance : disturbances) {
            CountingCommunicator communicator(inner, disturbance);
            EXPECT_EQ(steps(communicator), expected);
            EXPECT_THAT(communicator.exchanges(), ElementsAre(0, 20, 20, 20, 20, 0));
        }
    });
}

TEST(CountingFaults, ALostExchangeIsABugEvenBeforeItsStart) {
    const auto step = [](Communicator& inner) {
        Disturbance disturbance;
        disturbance.late_start.fill(5);
        CountingCommunicator communicator(inner, disturbance);
        auto mask = std::make_unique<Gather>(communicator, Traffic::mask, 1);
        if (communicator.rank() == 0)
            mask.reset();
        else
            mask->wait();
    };
    EXPECT_THAT([&] { run_ranks(2, step); },
                ThrowsMessage<Aborted>("rank 0: a mask exchange was never waited for"));
}

TEST(CountingFaults, ALinkThatIsCutStaysCut) {
    InProcessGroup group(1);
    const auto inner = group.communicator(0);
    CountingCommunicator communicator(*inner);
    communicator.lose_link_after(1);
    Gather(communicator, Traffic::mask, 1).wait();
    for (int again = 0; again < 2; ++again)
        EXPECT_THROW(Gather(communicator, Traffic::mask, 2), LinkLost);
}

TEST(CountingFaults, ErrorsComeThrough) {
    const auto step = [](Communicator& inner) {
        Disturbance disturbance;
        disturbance.newest_first = true;
        disturbance.hold_back.fill(true);
        CountingCommunicator communicator(inner, disturbance);
        Gather mask(communicator, Traffic::mask, 1);
        Gather payload(communicator, Traffic::payload, 1);
        if (communicator.rank() == 1)
            throw std::out_of_range("on purpose");
        mask.wait();
        payload.wait();
    };
    EXPECT_THAT([&] { run_ranks(3, step); }, ThrowsMessage<std::out_of_range>("on purpose"));
}

} // namespace
} // namespace truestep::distributed
