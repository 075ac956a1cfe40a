// Tests averaging's reference by hand, its cases, that each known bug is caught, and its drawing.
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include <truestep/gate/results.hpp>
#include <truestep/gate/search.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/reference/averaging/reference.hpp>
#include <truestep/report/page.hpp>

#include "implementation.hpp"
#include "planted/planted.hpp"
#include "properties.hpp"

namespace truestep::properties::averaging {

gate::System averaging_system();

namespace {

const gate::System& tested() {
    static const gate::System system = averaging_system();
    return system;
}

const std::shared_ptr<const gate::Group>& threads() {
    static const auto group = gate::make_thread_group(std::chrono::seconds(5));
    return group;
}

std::optional<gate::Counterexample> counterexample(const gate::Implementation& implementation,
                                                   const std::string& property,
                                                   gate::Overrides overrides = {}) {
    gate::SearchOptions options;
    options.overrides = std::move(overrides);
    return gate::search(tested(), implementation, tested().property(property), options).counterexample;
}

std::string what(const std::function<void()>& throws) {
    try {
        throws();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

// Worked out by hand: 1 - 0.5*2 - 0.5*1 = -0.5, 1 - 0.5*0 - 0.5*(-2) = 2, 1 - 0.5*0 - 0.5*1 = 0.5; their
// mean is 2/3.
TEST(Reference, ByHand) {
    const std::vector<reference::averaging::Gradients> gradients{
        {{2.0F}, {1.0F}}, {{0.0F}, {-2.0F}}, {{0.0F}, {1.0F}}};
    EXPECT_EQ(reference::averaging::after_round({1.0F}, gradients, 0.5F),
              reference::averaging::Vector{2.0F / 3.0F});
}

TEST(Reference, MeansOfMinusZeroKeepTheirSign) {
    const std::vector<reference::averaging::Gradients> gradients{{{0.0F}}, {{0.0F}}};
    EXPECT_TRUE(std::signbit(reference::averaging::after_round({-0.0F}, gradients, 0.5F).front()));
}

TEST(Case, IsALineAndBack) {
    const std::string line = "local_steps=2,workers=3,size=4,rounds=5,seed=6,data=normal";
    EXPECT_EQ(spec().text(spec().parse(line)), line);
    for (const char* wrong : {"", "workers=2", "local_steps=0", "local_steps=1,workers=x",
                              "local_steps=1,size", "local_steps=1,density=1", "local_steps=1,data=odd"})
        EXPECT_THROW(static_cast<void>(spec().parse(wrong)), Error) << wrong;
}

TEST(Case, IsNoneOfAnotherSystem) {
    gate::System other;
    other.name = "other";
    other.parsed = [](const gate::Line& line) {
        return line == "theirs" ? line : throw Error("case: no such case");
    };
    const std::vector<gate::System> both{other, tested()};
    EXPECT_EQ(what([&] { static_cast<void>(gate::parsed_case(other, both, "local_steps=2")); }),
              "--case is a case of the system averaging, and this is other; name it behind check: check "
              "averaging ...");
    EXPECT_EQ(what([&] { static_cast<void>(gate::parsed_case(tested(), both, "theirs")); }),
              "--case is a case of the system other, and this is averaging; name it behind check: check "
              "other ...");
}

TEST(Properties, HoldOfTheWorkers) {
    const Implementation host("host", play_worker, threads());
    for (const gate::Property& property : properties())
        EXPECT_FALSE(counterexample(host, property.name)) << property.name;
}

TEST(Properties, EachCatchesItsMistake) {
    const std::vector<std::string> catches{"reference", "reference", "replicas", "alone", "traffic"};
    for (const gate::KnownBug& known_bug : known_bugs()) {
        const std::string& property = catches[static_cast<std::size_t>(known_bug.number - 1)];
        const auto found = counterexample(*planted(known_bug.number, threads()), property);
        ASSERT_TRUE(found) << known_bug.name;
        EXPECT_LE(found->finding->size().elements, 2) << found->line;
    }
    EXPECT_THROW(static_cast<void>(planted(6, threads())), Error);
}

TEST(Properties, CasesAreHeldToWhatIsPinned) {
    const auto found = counterexample(*planted(1, threads()), "reference",
                                      {{"workers", {"3"}}, {"local-steps", {"2", "4"}}});
    ASSERT_TRUE(found);
    const Case run = spec().parse(found->line);
    EXPECT_EQ(run.workers, 3);
    EXPECT_EQ(run.local_steps, 2);
}

TEST(Page, DrawsTheLanesOfThisSystem) {
    const auto found =
        counterexample(*planted(1, threads()), "reference", {{"workers", {"3"}}, {"local-steps", {"2"}}});
    ASSERT_TRUE(found);
    const Case run = spec().parse(found->line);
    gate::Results results(tested());
    results.add_property({{"implementation", "planted-1"},
                          {"property", "reference"},
                          {"status", "FAILED"},
                          {"failure", gate::failure_json(*found, "")}});
    const std::string page = report::html_page({results.document({}, 1, 0.0)});
    const std::size_t begin = page.find("<figure");
    ASSERT_NE(begin, std::string::npos) << page;
    const std::string figure = page.substr(begin, page.find("</figure>") - begin);
    const auto count = [&figure](const std::string& part) {
        Index times = 0;
        for (std::size_t at = figure.find(part); at != std::string::npos; at = figure.find(part, at + 1))
            ++times;
        return times;
    };
    EXPECT_EQ(count("<th scope=\"row\">before</th>"), 1) << "all workers begin with the same";
    for (const char* lane : {"gradient 1", "gradient 2", "after"})
        EXPECT_EQ(count("<th scope=\"row\">" + std::string(lane) + "</th>"), run.workers) << lane;
    EXPECT_EQ(count("title=\"before of all ranks, x["), run.size);
    // With the sum in place of the mean, each wrong value is printed with the reference's.
    EXPECT_GE(count(", expected "), run.workers);
    EXPECT_GE(count(" wrong\" title=\"after of rank 2, x["), 1);
    EXPECT_EQ(count(">owner<"), 0);
    for (const char* foreign : {"mask", "residual", "moment"})
        EXPECT_EQ(count(foreign), 0) << foreign << " is another system's";
}

TEST(Drawing, ALaneOfAnotherLengthIsRefused) {
    gate::Drawing drawing{"round 1", 2, 1};
    drawing.lanes.push_back({"after", "", gate::Lane::Kind::floats, false, {{"1", "2"}}});
    EXPECT_EQ(gate::drawing_json(drawing)["lanes"][0]["expected"][0], nullptr);
    drawing.lanes.front().expected = {{"1"}};
    EXPECT_EQ(what([&] { static_cast<void>(gate::drawing_json(drawing)); }),
              "the drawing's lane 'after' does not have 1 row of 2 values; mend the finding that draws it");
    drawing.size = gate::Drawing::most_coordinates + 1;
    EXPECT_EQ(gate::drawing_json(drawing), nullptr) << "nobody could read it";
}

TEST(Properties, ARankThatFailsIsToldOf) {
    const Implementation silent(
        "silent", [](const Case&, distributed::Communicator&, const Show&) {}, threads());
    const auto found = counterexample(silent, "reference");
    ASSERT_TRUE(found);
    EXPECT_NE(found->finding->message().find("parameters are not shown after each round"),
              std::string::npos);
}

} // namespace
} // namespace truestep::properties::averaging
