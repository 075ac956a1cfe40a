// Tests that drawings and page contain what they must, and report what is unknown.
#include <truestep/training/drawing.hpp>

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/report/chart.hpp>

#include "page_support.hpp"
#include "sample_results.hpp"

namespace truestep::training {
namespace {

using report::count;
using support::sample_results;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Drawing, HasAThinLineARunAThickOneAnOptimizerAndAllFloors) {
    const TrainingResults results = sample_results();
    const std::string drawn = loss_over_steps(results.curves, results.levels);
    report::expect_well_formed(drawn);
    EXPECT_EQ(count(drawn, "<path class=\"t-seed "), 9U);
    EXPECT_EQ(count(drawn, "<path class=\"t-median "), 3U + 3U); // and in the key
    EXPECT_EQ(count(drawn, "<path class=\"t-floor\""), 8U);
    EXPECT_EQ(count(drawn, "<path class=\"t-entropy\""), 1U);
    for (const char* level : {">unigram 4.100<", ">trigram 1.620<", ">8-gram 1.640<", ">entropy 1.020<"})
        EXPECT_THAT(drawn, HasSubstr(level));
    EXPECT_THAT(drawn, HasSubstr("alone &lt;&amp;&quot;&gt; one rank"));
    EXPECT_THAT(drawn, Not(HasSubstr("<script")));
    EXPECT_THAT(drawn, HasSubstr("xmlns=\"http://www.w3.org/2000/svg\""));
    EXPECT_THAT(drawn, HasSubstr("prefers-color-scheme: dark"));
}

TEST(Drawing, WhoeverSendsNothingHasNoPlaceOverBytesAndThatIsTold) {
    const TrainingResults results = sample_results();
    const std::string drawn = loss_over_bytes(results.curves, results.levels);
    report::expect_well_formed(drawn);
    EXPECT_EQ(count(drawn, "<path class=\"t-seed "), 6U);
    EXPECT_EQ(count(drawn, ": sends nothing, or has no finite loss"), 1U);
    EXPECT_THAT(drawn, HasSubstr(">1 GB<")); // 6 GB and 4.5 MB on one axis
    EXPECT_THAT(drawn, HasSubstr(">10 MB<"));
    EXPECT_THAT(drawn, Not(HasSubstr("nan")));
}

TEST(Drawing, NoNumberIsAGap) {
    TrainingResults results = sample_results();
    results.curves.resize(1);
    results.curves[0].points[5].loss = std::nan("");
    const std::string drawn = loss_over_steps(results.curves, {});
    EXPECT_EQ(drawn.find("nan"), std::string::npos);
    const std::size_t path = drawn.find("d=\"", drawn.find("<path class=\"t-seed "));
    const std::string d = drawn.substr(path + 3, drawn.find('"', path + 3) - path - 3);
    EXPECT_EQ(count(d, "M"), 2U);
    for (Curve::Point& point : results.curves[0].points)
        point.loss = std::numeric_limits<double>::infinity();
    const std::string none = loss_over_steps(results.curves, {});
    EXPECT_THAT(none, HasSubstr("no finite loss"));
    EXPECT_THAT(none, Not(HasSubstr("inf\"")));
    report::expect_well_formed(none);
}

TEST(Drawing, LabelsKeepApartAndStayInside) {
    const std::vector<double> at = report::page::apart({50, 51, 52, 99, 10}, 10, 5, 100);
    EXPECT_EQ(at, (std::vector<double>{50, 60, 70, 99, 10}));
    EXPECT_EQ(report::page::apart({95, 96, 97}, 10, 5, 100), (std::vector<double>{80, 90, 100}));
    EXPECT_EQ(report::page::clipped("aä", 2), "a…");
}

TEST(Drawing, TheMapHasALetterAColourAndTheDifferenceInEveryCell) {
    const TrainingResults results = sample_results();
    const std::string drawn = verdict_map(results.maps[0].title, results.maps[0].cells);
    report::expect_well_formed(drawn);
    EXPECT_EQ(count(drawn, "<g class=\"t-cell\">"), 8U);
    EXPECT_EQ(count(drawn, "<title>not run</title>"), 1U);
    EXPECT_EQ(count(drawn, ">−0.040<"), 3U); // density 0.01
    EXPECT_EQ(count(drawn, ">+0.950<"), 2U);
    EXPECT_THAT(drawn, HasSubstr("batch 8, warm-up &lt; 10 %"));
    for (const Outcome outcome :
         {Outcome::same, Outcome::worse, Outcome::better, Outcome::undecided, Outcome::mistrusted}) {
        const std::string word = name(outcome);
        // Each colour has its letter on it, in the cells and in the key.
        EXPECT_GE(count(drawn, "<rect class=\"t-" + word + "\""), 2U) << word;
        EXPECT_EQ(count(drawn, "<rect class=\"t-" + word + "\""),
                  count(drawn, ">" + word.substr(0, 1) + "<"))
            << word;
    }
}

TEST(TrainingPage, PutsAllTogether) {
    const std::string page = training_page(sample_results());
    report::expect_well_formed(page);
    EXPECT_THAT(page, HasSubstr("<h1>1 of 5 comparisons: worse than the base line</h1>"));
    const std::string verdicts = report::section(page, "verdicts");
    EXPECT_EQ(count(verdicts, "<th scope=\"row\""), 5U);
    EXPECT_THAT(verdicts, HasSubstr("candidate a&lt;b"));
    EXPECT_THAT(verdicts, HasSubstr("16 seeds of the base line"));
    EXPECT_EQ(count(report::section(page, "curves"), "<svg xmlns"), 2U);
    EXPECT_EQ(count(report::section(page, "maps"), "<svg xmlns"), 1U);
    EXPECT_EQ(count(report::section(page, "floors"), "<th scope=\"row\""), 9U);
    const std::string runs = report::section(page, "runs");
    EXPECT_EQ(count(runs, "<li>"), 9U); // every seed is shown
    EXPECT_EQ(count(page, "<script"), 0U);
}

TEST(TrainingPage, OfNothingSaysSo) {
    const std::string page = training_page({});
    report::expect_well_formed(page);
    EXPECT_THAT(page, HasSubstr("Nothing was compared"));
}

} // namespace
} // namespace truestep::training
