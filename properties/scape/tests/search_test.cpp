// The search itself: it finds, shrinks and repeats, and properties that no known bug needs can fail, too.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/distributed/scape/scape.hpp>
#include <truestep/gate/gate_main.hpp>

#include "search_support.hpp"

namespace truestep::properties::scape {
namespace {

using distributed::Communicator;
using distributed::Traffic;
using gate::SearchOptions;
using gate::SearchResult;
using gate::too_few;

class Throws final : public Changed {
  public:
    Throws(const Setup& setup, Communicator& communicator)
        : Changed(setup, communicator), fails_(communicator.rank() == communicator.size() - 1) {}
    void step(std::span<const float> gradient, double learning_rate) override {
        if (fails_)
            throw std::runtime_error("out of luck");
        Changed::step(gradient, learning_rate);
    }

  private:
    bool fails_;
};

class Varies final : public Changed {
  public:
    Varies(const Setup& setup, Communicator& communicator)
        : Changed(setup, communicator), scale_(setup.variant == 1 ? 1.0F + 0x1p-20F : 1.0F) {}
    void step(std::span<const float> gradient, double learning_rate) override {
        std::vector<float> other(gradient.begin(), gradient.end());
        for (float& value : other)
            value *= scale_;
        Changed::step(other, learning_rate);
    }

  private:
    float scale_;
};

class DropsSmall final : public Changed {
  public:
    using Changed::Changed;
    void step(std::span<const float> gradient, double learning_rate) override {
        std::vector<float> other(gradient.begin(), gradient.end());
        for (float& value : other)
            value = std::abs(value) < 1e-3F ? 0.0F : value;
        Changed::step(other, learning_rate);
    }
};

/// Restores into a new object only: one that has taken a step ignores it.
class IgnoresARestore final : public Changed {
  public:
    using Changed::Changed;
    void step(std::span<const float> gradient, double learning_rate) override {
        Changed::step(gradient, learning_rate);
        is_live_ = true;
    }
    void restore(const std::filesystem::path& folder) override {
        if (!is_live_)
            Changed::restore(folder);
    }

  private:
    bool is_live_ = false;
};

/// Treats a failed exchange as completed.
class SwallowsFailures final : public Changed {
  public:
    using Changed::Changed;
    void step(std::span<const float> gradient, double learning_rate) override {
        try {
            Changed::step(gradient, learning_rate);
        } catch (const distributed::scape::RefusedStep&) {
            throw;
        } catch (const std::exception&) {
        }
    }
    std::vector<std::uint8_t> coming() override {
        try {
            return Changed::coming();
        } catch (const std::exception&) {
            return Changed::view().mask;
        }
    }
};

class NamesNobody final : public Changed {
  public:
    using Changed::Changed;
    void step(std::span<const float> gradient, double learning_rate) override {
        try {
            Changed::step(gradient, learning_rate);
        } catch (const distributed::Aborted&) {
            throw std::runtime_error("communication failed");
        }
    }
};

std::unique_ptr<RankUnderTest> takes_any_mask(const Setup& setup, Communicator& communicator) {
    return planted::make_plain(setup, communicator, planted::Bug::none);
}

class SendsTwice final : public Changed {
  public:
    SendsTwice(const Setup& setup, Communicator& communicator)
        : Changed(setup, communicator), communicator_(communicator) {}
    void step(std::span<const float> gradient, double learning_rate) override {
        Changed::step(gradient, learning_rate);
        const std::vector<std::size_t> sizes(static_cast<std::size_t>(communicator_.size()), 1);
        std::vector<std::uint8_t> all(sizes.size());
        const std::uint8_t mine = 0;
        communicator_.start_all_gather(Traffic::mask, &mine, all.data(), sizes)->wait();
    }

  private:
    Communicator& communicator_;
};

TEST(Search, ShrinksToTheSmallestCaseAndRepeatsItself) {
    const auto bug = planted::implementation(9, threads());
    const SearchResult first = search_for(*bug, "conservation.exact");
    ASSERT_TRUE(first.counterexample);
    EXPECT_LE(parse_case(first.counterexample->line).size(), 2);
    EXPECT_EQ(parse_case(first.counterexample->line).workers, 1);
    EXPECT_GT(first.counterexample->evaluations, 0);
    const SearchResult again = search_for(*bug, "conservation.exact");
    ASSERT_TRUE(again.counterexample);
    EXPECT_EQ(again.counterexample->line, first.counterexample->line);
    EXPECT_EQ(again.cases, first.cases);

    SearchResult ignored;
    EXPECT_TRUE(
        try_case(*bug, scape().property("conservation.exact"), first.counterexample->line, {}, ignored));
    const auto clean = planted::implementation(0, threads());
    EXPECT_FALSE(
        try_case(*clean, scape().property("conservation.exact"), first.counterexample->line, {}, ignored));
}

TEST(Search, ASeedDrawsItsOwnCases) {
    std::vector<std::string> drawn[2];
    for (const std::uint64_t seed : {1U, 2U}) {
        SearchOptions options;
        options.cases = 20;
        options.seed = seed;
        options.before = [&](const gate::Line& line) {
            drawn[seed - 1].push_back(line);
            return true;
        };
        static_cast<void>(
            search(scape(), *reference_implementation(), scape().property("mask.count"), options));
    }
    EXPECT_EQ(drawn[0].size(), 20U);
    EXPECT_NE(drawn[0], drawn[1]);
}

TEST(Search, HoldsCasesToPinnedValues) {
    SearchOptions options;
    options.cases = 50;
    options.overrides = {
        {"workers", {"3", "5"}}, {"density", {"0.25"}}, {"steps", {"2"}}, {"clip-norm", {"0.5"}}};
    int fives = 0;
    options.before = [&](const gate::Line& line) {
        const Case run = parse_case(line);
        EXPECT_TRUE(run.workers == 3 || run.workers == 5);
        EXPECT_EQ(run.density, 0.25);
        EXPECT_EQ(run.steps, 2);
        EXPECT_EQ(run.clip_norm, 0.5);
        fives += run.workers == 5 ? 1 : 0;
        return true;
    };
    const auto host = planted::implementation(0, threads());
    EXPECT_FALSE(search(scape(), *host, scape().property("reference"), options).counterexample);
    EXPECT_GT(fives, 0);
    EXPECT_LT(fives, 50);
    // A pinned value does not override what a property needs.
    options.before = [](const gate::Line& line) {
        const Case run = parse_case(line);
        EXPECT_EQ(run.clip_norm, 0.0);
        return true;
    };
    EXPECT_FALSE(search(scape(), *host, scape().property("conservation.exact"), options).counterexample);
}

TEST(Search, EndsWhenItIsTold) {
    SearchOptions options;
    int left = 7;
    options.before = [&](const gate::Line&) { return left-- > 0; };
    const SearchResult result =
        search(scape(), *reference_implementation(), scape().property("mask.on"), options);
    EXPECT_TRUE(result.ended);
    EXPECT_EQ(result.cases, 7);
}

TEST(Search, TooFewCasesOfAKindAreToldOf) {
    gate::Property property = scape().property("mask.on");
    property.at_least = {{"several ranks", 99}};
    SearchOptions options;
    const SearchResult result = search(scape(), *reference_implementation(), property, options);
    EXPECT_FALSE(result.counterexample);
    EXPECT_NE(too_few(scape(), property, result, options).find("several ranks"), std::string::npos);
    property.at_least = {{"a kind that never was", 5}};
    EXPECT_NE(too_few(scape(), property, result, options), "");
    property.at_least = {{"several ranks", 1}};
    EXPECT_EQ(too_few(scape(), property, result, options), "");
}

TEST(Search, ARankThatThrowsOrVanishesIsAViolation) {
    const auto broken = made_by<Throws>();
    const SearchResult result = search_for(*broken, "reference", 5);
    ASSERT_TRUE(result.counterexample);
    EXPECT_NE(std::string(result.counterexample->finding->message()).find("out of luck"),
              std::string::npos);
    EXPECT_EQ(result.counterexample->line, "steps=1");
}

// None of section 10's bugs needs these two properties; these bugs do.

TEST(Properties, RerunFailsWhereAVariantHasOtherBits) {
    const auto varies = made_by<Varies>({"one", "two"});
    EXPECT_TRUE(search_for(*varies, "rerun").counterexample);
    EXPECT_FALSE(search_for(*varies, "reference").counterexample) << "the first variant is right";
}

TEST(Properties, ScaleFailsWhereSmallValuesAreLeftOut) {
    const auto drops = made_by<DropsSmall>();
    EXPECT_TRUE(search_for(*drops, "symmetry.scale").counterexample);
}

TEST(Properties, TrafficFailsWhereAMaskIsSentTwice) {
    const auto twice = made_by<SendsTwice>();
    const SearchResult result = search_for(*twice, "traffic");
    ASSERT_TRUE(result.counterexample);
    EXPECT_NE(std::string(result.counterexample->finding->message()).find("mask exchanges"),
              std::string::npos);
}

TEST(Properties, FaultFailsWhereAFailedExchangeIsSwallowed) {
    const auto result = search_for(*made_by<SwallowsFailures>(), "fault");
    ASSERT_TRUE(result.counterexample);
    EXPECT_NE(std::string(result.counterexample->finding->message()).find("went on as if nothing had been"),
              std::string::npos)
        << result.counterexample->finding->message();
    EXPECT_FALSE(search_for(*made_by<SwallowsFailures>(), "update.factor").counterexample);
}

TEST(Properties, FaultFailsWhereNobodyIsNamed) {
    const auto result = search_for(*made_by<NamesNobody>(), "fault");
    ASSERT_TRUE(result.counterexample);
    EXPECT_NE(std::string(result.counterexample->finding->message())
                  .find("does not name it: communication failed"),
              std::string::npos)
        << result.counterexample->finding->message();
    EXPECT_FALSE(search_for(*made_by<Changed>(), "fault").counterexample);
}

TEST(Properties, FaultFailsWhereADamagedMaskIsTaken) {
    const auto taker =
        on_ranks({.name = "taker", .make = takes_any_mask, .names_differences = true}, threads());
    const auto result = search_for(*taker, "fault");
    ASSERT_TRUE(result.counterexample);
    EXPECT_NE(std::string(result.counterexample->finding->message()).find("it should have"),
              std::string::npos)
        << result.counterexample->finding->message();
}

TEST(Search, AStepThatARestoreDoesNotUndoIsAViolation) {
    const auto result = search_for(*made_by<IgnoresARestore>(), "machine");
    ASSERT_TRUE(result.counterexample.has_value());
    EXPECT_NE(result.counterexample->line.find("undo"), std::string::npos) << result.counterexample->line;
}

TEST(Search, LargeCasesKeepTheirRanksWhereNumbersOfRanksArePinned) {
    const gate::Property& reference = scape().property("reference");
    int several = 0;
    const auto usual = made_by<Changed>();
    for (const gate::Line& line : reference.also(*usual, {{"workers", {"1", "2", "3"}}}))
        several += parse_case(line).workers > 1 ? 1 : 0;
    EXPECT_GE(reference.also(*usual, {}).size(), 8U);
    EXPECT_GE(several, 4);
}

TEST(Search, MillionsOfParametersComeToThoseWhoTakeThem) {
    const gate::Property& reference = scape().property("reference");
    const auto largest = [&](Index most) {
        const auto taker = on_ranks({.name = "taker", .make = {}, .most_parameters = most}, threads());
        Index found = 0;
        for (const gate::Line& line : reference.also(*taker, {}))
            found = std::max(found, parse_case(line).size());
        return found;
    };
    EXPECT_GT(largest(usual_parameters), 131'072); // 2c + 1 of 65,536
    EXPECT_EQ(largest(1'000'000), 1'000'000);
    EXPECT_GT(largest(10'000'000), 9'000'000);
}

// The gate's self-test.

TEST(SelfTest, SeesAllThatItIsShown) {
    EXPECT_EQ(scape().unseen(), std::vector<std::string>());
}

TEST(SelfTest, AGateThatDoesNotSeeEndsBeforeAnyVerdict) {
    gate::System blind = system_with({});
    blind.unseen = [] { return std::vector<std::string>{"moment", "kept told"}; };
    std::string name = "blind";
    std::string list = "--brief";
    char* arguments[] = {name.data(), list.data()};
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    EXPECT_EQ(gate::gate_main(2, arguments, {blind}), 2);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "blind: unexpected: this gate misses a wrong answer that it is shown (moment, kept told), so "
              "its verdicts mean nothing\n");
}

/// An implementation with two devices, for example: there is none for a third rank.
class NoThird final : public Changed {
  public:
    NoThird(const Setup& setup, Communicator& communicator) : Changed(setup, communicator) {
        if (communicator.size() > 2)
            throw std::runtime_error("there is no third");
    }
};

gate::Implementations of_two_at_most(const std::shared_ptr<const Group>& group) {
    ImplementationSpec few{.name = "few", .make = {}, .most_workers = 2};
    few.make = [](const Setup& setup, Communicator& communicator) {
        return std::make_unique<NoThird>(setup, communicator);
    };
    return {on_ranks(std::move(few), group)};
}

TEST(Check, WhoTakesFewRanksIsAskedForNoMore) {
    gate::System few = scape();
    few.implementations = of_two_at_most;
    std::vector<std::string> words{"few",     "--property", "traffic,restart.other,reference",
                                   "--cases", "50",         "--brief"};
    std::vector<char*> arguments;
    for (std::string& word : words)
        arguments.push_back(word.data());
    testing::internal::CaptureStdout();
    EXPECT_EQ(gate::gate_main(static_cast<int>(arguments.size()), arguments.data(), {few}), 0);
    EXPECT_THAT(testing::internal::GetCapturedStdout(),
                testing::HasSubstr("3 passed, 0 failed, 0 skipped"));
}

TEST(Group, RanksThatWorkAndThoseThatDoNotSeeTheSameRecords) {
    const auto records = threads()->exchange(3, [](int rank) {
        return Group::Bytes(static_cast<std::size_t>(rank), static_cast<std::uint8_t>(rank));
    });
    ASSERT_EQ(records.size(), 3U);
    EXPECT_EQ(records[2], (Group::Bytes{2, 2}));
    EXPECT_TRUE(threads()->takes(8));
    EXPECT_FALSE(threads()->takes(0));
}

} // namespace
} // namespace truestep::properties::scape
