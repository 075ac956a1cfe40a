#include <truestep/gate/isolated_search.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include <unistd.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/timeline.hpp>

// Work in child processes, and searches whose implementation crashes or hangs.

namespace truestep::gate {
namespace {

using nlohmann::ordered_json;

class Nothing final : public Implementation {
  public:
    std::string name() const override { return "nothing"; }
    std::string communicator() const override { return "-"; }
    verify::LevelKind level() const override { return verify::LevelKind::exact; }
    bool takes(int /*workers*/) const override { return true; }
};

/// Cases are numbers from 0 to 99.
Property asking(std::function<void(int)> what) {
    Property property;
    property.name = "asked";
    property.cases = [](const Overrides&, const Unsupported&) {
        return rc::gen::map(rc::gen::inRange(0, 100), [](int number) { return std::to_string(number); });
    };
    property.judge = [what = std::move(what)](const Implementation&, const Line& line) {
        what(std::stoi(line));
        return CaseJudgement{.finding = nullptr, .kinds = {"asked"}, .counts = {.compared = 1}};
    };
    property.needed = [](const Line& line, const Unsupported&) { return line; };
    return property;
}

System numbers() {
    System system;
    system.parsed = [](const Line& line) { return line; };
    return system;
}

/// Searches as `check` does.
SearchResult searched(const Property& property, double most_seconds, std::vector<Line> also = {}) {
    const System system = numbers();
    const Nothing nothing;
    SearchOptions options;
    options.also = std::move(also);
    options.before = [](const Line& line) {
        now_running("try " + line, line);
        return true;
    };
    SearchResult result;
    run_pieces({{.work =
                     [&](const ProcessEnd& before) {
                         return to_json(
                             search_again(system, nothing, property, options, before, most_seconds, ""),
                             "");
                     },
                 .told = [&](const ordered_json& json) { result = search_result(json); }}},
               {.at_a_time = 1, .most_seconds = most_seconds});
    return result;
}

TEST(Processes, AnswersAreToldInTheOrderOfThePieces) {
    for (const int at_a_time : {0, 1, 3, 100}) {
        std::vector<int> told;
        std::vector<Piece> pieces;
        for (int piece = 0; piece < 12; ++piece)
            pieces.push_back({.work =
                                  [piece](const ProcessEnd&) {
                                      if (piece % 4 == 0)
                                          std::this_thread::sleep_for(std::chrono::milliseconds(20));
                                      return ordered_json{{"piece", piece}, {"process", getpid()}};
                                  },
                              .told =
                                  [&told, at_a_time, piece](const ordered_json& answer) {
                                      told.push_back(answer["piece"]);
                                      EXPECT_EQ(answer["process"] == getpid(),
                                                at_a_time == 0 || piece == 7);
                                  },
                              .here = piece == 7});
        pieces.push_back({.work = {}, .told = [&told](const ordered_json&) { told.push_back(12); }});
        run_pieces(pieces, {.at_a_time = at_a_time});
        EXPECT_EQ(told, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
    }
}

TEST(Processes, ALongAnswerArrivesWhole) {
    const std::string text(3'000'000, 'x');
    run_pieces({{.work = [&](const ProcessEnd&) { return ordered_json(text); },
                 .told = [&](const ordered_json& answer) { EXPECT_EQ(answer, text); }}},
               {.at_a_time = 1});
}

TEST(Processes, ErrorsAreThrownAsTheyWere) {
    const auto ran_with = [](const std::function<void()>& thrower) {
        run_pieces({{.work =
                         [&](const ProcessEnd&) {
                             thrower();
                             return ordered_json();
                         },
                     .told = [](const ordered_json&) { FAIL(); }}},
                   {.at_a_time = 2});
    };
    EXPECT_THROW(ran_with([] { throw Error("bad input"); }), Error);
    EXPECT_THROW(ran_with([] { throw std::logic_error("a bug"); }), std::runtime_error);
}

TEST(Processes, ACrashOfOnePieceIsToldToItsSecondProcess) {
    std::vector<std::string> told;
    const auto piece = [&](bool crashes) {
        return Piece{.work =
                         [crashes](const ProcessEnd& before) {
                             now_running("command", "line");
                             if (crashes && before.how.empty())
                                 std::raise(SIGSEGV);
                             return ordered_json(before.how + " at " + before.line);
                         },
                     .told = [&told](const ordered_json& answer) { told.push_back(answer); }};
    };
    run_pieces({piece(false), piece(true), piece(false)}, {.at_a_time = 2});
    ASSERT_EQ(told.size(), 3U);
    EXPECT_EQ(told[0], " at ");
    EXPECT_NE(told[1].find("crashed (Segmentation fault"), std::string::npos) << told[1];
    EXPECT_NE(told[1].find(" at line"), std::string::npos) << told[1];
    EXPECT_EQ(told[2], " at ");
}

TEST(Processes, WhatCannotBeFinishedTwiceIsAnError) {
    EXPECT_THROW(run_pieces({{.work = [](const ProcessEnd&) -> ordered_json { std::_Exit(3); },
                              .told = [](const ordered_json&) { FAIL(); }}},
                            {.at_a_time = 1}),
                 std::runtime_error);
}

/// One piece interrupts and ends, one hangs and is ended, and one never begins.
[[noreturn]] void interrupted_by(int signal) {
    std::signal(signal, SIG_DFL); // independent of what runs this test
    tell_of_crashes();
    tell_what_was_done();
    const auto tell = [signal](const ordered_json& answer) {
        std::fprintf(stderr, "told %s;", answer.dump().c_str());
        if (answer == 1)
            std::raise(signal);
    };
    const auto hangs = [](const ProcessEnd&) -> ordered_json {
        while (true)
            pause();
    };
    run_pieces({{.work = [](const ProcessEnd&) { return ordered_json(1); }, .told = tell},
                {.work = hangs, .told = tell},
                {.work = [](const ProcessEnd&) { return ordered_json(2); }, .told = tell}},
               {.at_a_time = 2});
    std::fprintf(stderr, "all told");
    end_if_interrupted();
    std::_Exit(EXIT_SUCCESS);
}

TEST(ProcessesDeathTest, WhatAnInterruptionLeavesUndoneIsToldToo) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
        EXPECT_EXIT(interrupted_by(signal), testing::KilledBySignal(signal),
                    "told 1;[^;]*;[^;]*told (2|null);.*all told");
}

TEST(SearchApart, ACrashIsACounterexampleAndShrinks) {
    const SearchResult result = searched(asking([](int number) {
                                             if (number >= 7)
                                                 std::abort();
                                         }),
                                         60.0);
    ASSERT_TRUE(result.counterexample);
    EXPECT_EQ(result.counterexample->line, "7");
    EXPECT_EQ(result.counterexample->finding->message(), "it crashed (Aborted)");
}

TEST(SearchApart, ACrashSaysWhichRankWasInWhichPhase) {
    const auto crash = [](int number) {
        if (number < 7)
            return;
        std::thread([] {
            const problem::Span step("step", 3);
            { const problem::Span over("exchange", 3); }
            std::abort();
        }).join();
    };
    EXPECT_EQ(searched(asking(crash), 60.0).counterexample->finding->message(),
              "it crashed (Aborted): rank 3 in its phase step");
}

TEST(SearchApart, ACaseThatWasNotDrawnShrinksToo) {
    const SearchResult result = searched(asking([](int number) {
                                             if (number >= 4097)
                                                 std::abort();
                                         }),
                                         60.0, {"140003"});
    ASSERT_TRUE(result.counterexample);
    EXPECT_EQ(result.counterexample->line, "4097");
}

TEST(SearchApart, AHangIsACounterexampleAndShrinks) {
    const SearchResult result = searched(asking([](int number) {
                                             while (number >= 5)
                                                 std::this_thread::sleep_for(std::chrono::hours(1));
                                         }),
                                         1.0);
    ASSERT_TRUE(result.counterexample);
    // 5, unless the machine paused for a second.
    EXPECT_GE(std::stoi(result.counterexample->line), 5);
    EXPECT_TRUE(result.counterexample->finding->message().starts_with("it took longer than 1 s"));
}

TEST(Search, ACaseIsTriedInEachScheduleAndTheOneThatFailsIsKept) {
    // It fails from 20 on, in the sixth order only: shrinking has to try all orders, too.
    std::uint64_t chosen = 0;
    const Property property = asking([&](int number) {
        if (number >= 20 && chosen == 6)
            throw std::runtime_error("a race");
    });
    const System system = numbers();
    const Nothing nothing;
    SearchOptions options;
    options.schedules = {.first = 3, .count = 5, .use = [&](std::uint64_t number) { chosen = number; }};
    const SearchResult result = search(system, nothing, property, options);
    ASSERT_TRUE(result.counterexample);
    EXPECT_EQ(result.counterexample->line, "20");
    EXPECT_EQ(result.counterexample->schedule, 6U);
    EXPECT_EQ(search_result(to_json(result, "")).counterexample->schedule, 6U);
    options.schedules.count = 3;
    EXPECT_FALSE(search(system, nothing, property, options).counterexample);
}

TEST(SearchApart, WhatEndsTheProcessIsNoPass) {
    const SearchResult result = searched(asking([](int number) {
                                             if (number == 1000)
                                                 std::exit(0);
                                         }),
                                         60.0, {"1000"});
    ASSERT_TRUE(result.counterexample);
    EXPECT_EQ(result.counterexample->line, "1000");
}

TEST(SearchApart, ACrashThatDoesNotComeBackIsNotForgotten) {
    const auto flag = std::filesystem::path(testing::TempDir()) / ("crashed_" + std::to_string(getpid()));
    const SearchResult result = searched(asking([&](int number) {
                                             if (number < 50 || std::filesystem::exists(flag))
                                                 return;
                                             std::ofstream(flag) << "once";
                                             std::abort();
                                         }),
                                         60.0);
    std::filesystem::remove(flag);
    ASSERT_TRUE(result.counterexample);
    EXPECT_GE(std::stoi(result.counterexample->line), 50);
    EXPECT_EQ(result.counterexample->finding->message(), "it crashed (Aborted); tried again, it did not");
}

TEST(SearchApart, WhatIsFoundInAnotherProcessIsToldWhole) {
    const SearchResult result = searched(asking([](int number) {
                                             if (number >= 95)
                                                 throw std::runtime_error("nine");
                                         }),
                                         60.0);
    ASSERT_TRUE(result.counterexample);
    EXPECT_EQ(result.counterexample->line, "95");
    EXPECT_EQ(result.counterexample->finding->message(), std::string(could_not_judge) + "nine");
    EXPECT_GT(result.kinds.at("asked"), 0);
    EXPECT_EQ(result.counts.compared, result.kinds.at("asked"));
}

} // namespace
} // namespace truestep::gate
