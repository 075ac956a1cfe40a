// Tests the text and JSON reports of verdicts on SCAPE traces, and the tables in them.
#include <truestep/verify/report.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <truestep/report/environment.hpp>
#include <truestep/report/table.hpp>
#include <truestep/verify/scape/record.hpp>

#include "support.hpp"

namespace truestep::verify::scape {
namespace {

using report::environment;
using report::json_environment;
using report::percent;
using report::Table;
using report::ulps_text;
using report::version;

using nlohmann::json;
using support::contains;
using support::element;
using support::FileImage;
using support::set_element;
using support::TemporaryFolder;

class ReportTest : public testing::Test {
  protected:
    ReportTest() : path_(folder_ / "trace.safetensors") { record(path_, support::small_run()); }

    [[nodiscard]] TraceVerdict verdict(Level level = Level::exact()) const {
        VerifyOptions options;
        options.level = level;
        options.from = ReferenceStart::start;
        return verify_trace(path_, options);
    }

    /// The JSON as a reader of the file sees it.
    [[nodiscard]] static json parsed(const TraceVerdict& verdict) {
        return json::parse(json_report(verdict).dump());
    }

    TemporaryFolder folder_;
    std::filesystem::path path_;
};

TEST(PlaceOfADivergence, NamesStepPhaseResultRankTensorIndexAndCoordinate) {
    const problem::Layout layout({{"wq", 30, false}, {"empty", 0, false}, {"mlp", 50, false}});
    Divergence divergence{3, "residual", "residual", 1, 35, {}, {}};
    EXPECT_EQ(place(divergence, layout),
              "step 3, phase residual, residual of rank 1, tensor mlp, index 5 (coordinate 35)");
    divergence.rank = Divergence::all_ranks;
    EXPECT_TRUE(contains(place(divergence, layout), "residual (the same on all ranks), tensor mlp"));
    divergence.index = 80;
    EXPECT_TRUE(contains(place(divergence, layout), "beyond the last parameter (bit 80)"));
    divergence.index = std::nullopt;
    EXPECT_EQ(place(divergence, layout), "step 3, phase residual, residual (the same on all ranks)");
}

TEST_F(ReportTest, AGoodTraceIsToldInATable) {
    const std::string text = text_report(verdict());
    EXPECT_TRUE(contains(text,
                         "  problem  scape, 3 workers, 5 steps, 81 parameters in 3 tensors, 5 segments, "
                         "bias correction adam\n"));
    EXPECT_TRUE(contains(text, "  source   a test\n"));
    EXPECT_TRUE(contains(text, "  level    EXACT: the same bits"));
    EXPECT_TRUE(contains(text, "  from     start: the reference runs free\n"));
    const auto lines = support::lines(text);
    const auto title = std::find_if(lines.begin(), lines.end(),
                                    [](const std::string& line) { return contains(line, "#wrong"); });
    ASSERT_NE(title, lines.end());
    for (const char* column : {"phase", "result", "values", "max ULP", "% of limit", "status"})
        EXPECT_TRUE(contains(*title, column)) << column;
    ASSERT_GE(std::distance(title, lines.end()), 10);
    EXPECT_TRUE(contains(*(title + 1), "check")) << *(title + 1);
    EXPECT_TRUE(contains(*(title + 9), "parameters") && contains(*(title + 9), "405") &&
                contains(*(title + 9), "PASSED"))
        << *(title + 9);
    EXPECT_FALSE(contains(text, "divergence"));
    EXPECT_EQ(text.find("note"), text.rfind("note: replicas: not recorded")) << "no other";
    EXPECT_TRUE(contains(text_report(verify_trace(path_, {})),
                         "from     recorded: each step begins at the recorded"));
}

TEST_F(ReportTest, AFailureTellsPlaceValuesBitsAndDistance) {
    set_element(path_, "step/0002/parameters", 33, -0.5F);
    const auto good = element<float>(path_, "step/0002/parameters", 32);
    const std::string text = text_report(verdict());
    EXPECT_TRUE(contains(text,
                         "  first divergence: step 2, phase update, parameters (the same on all ranks), "
                         "tensor norm, index 3 (coordinate 33)\n"));
    EXPECT_TRUE(contains(text, "  1 of 81 values differ (1.23 %) in this vector at this step\n"));
    EXPECT_TRUE(contains(text, "got -0.5 (0xbf000000), "));
    EXPECT_TRUE(contains(text, " ULP apart  <--\n"));
    EXPECT_TRUE(contains(text, "tensor norm, index 2 (coordinate 32): expected " + with_bits(good) +
                                   ", got " + with_bits(good)));
    EXPECT_TRUE(contains(text, "greatest difference "));
    EXPECT_TRUE(contains(text, "FAILED"));
}

TEST_F(ReportTest, RelIsExplainedAndShowsShares) {
    const std::string text = text_report(verdict(Level::rel()));
    EXPECT_TRUE(contains(text, "level    REL: " + explain(Level::rel()) + "\n"));
}

TEST_F(ReportTest, WhatIsAbsentIsSaid) {
    FileImage image(path_);
    image.drop("/exchanged");
    image.save(path_);
    const auto lines = support::lines(text_report(verdict()));
    const auto line = std::find_if(lines.begin(), lines.end(),
                                   [](const std::string& one) { return contains(one, " exchanged "); });
    ASSERT_NE(line, lines.end());
    EXPECT_TRUE(line->ends_with("UNTESTED (not in the trace)")) << *line;
}

TEST_F(ReportTest, WhatHasNoFiniteBoundIsNotSaidToBeAbsent) {
    TraceVerdict unbounded = verdict();
    unbounded.rows.back().compared = 0;
    unbounded.rows.back().unbounded = 405;
    EXPECT_TRUE(contains(text_report(unbounded), "UNTESTED (no finite bound)"));
    EXPECT_FALSE(contains(text_report(unbounded), "not in the trace"));
}

TEST_F(ReportTest, AMistrustedVerdictSaysWhy) {
    TraceVerdict mistrusted = verdict();
    mistrusted.status = Status::mistrusted;
    EXPECT_TRUE(
        contains(text_report(mistrusted), "too few of the compared values are non-zero to prove anything"));
}

TEST_F(ReportTest, ATextFromTheFileStaysOnItsLine) {
    TraceVerdict verdict_of_text = verdict();
    verdict_of_text.source = "line 1\nPASSED\r\033[2J";
    const std::string text = text_report(verdict_of_text);
    EXPECT_EQ(support::lines(text).size(), support::lines(text_report(verdict())).size());
    EXPECT_FALSE(contains(text, "\033"));
    EXPECT_FALSE(contains(text, "\r"));
}

TEST_F(ReportTest, JsonOfAGoodTraceHasAllFields) {
    const json report = parsed(verdict());
    EXPECT_EQ(report.at("trace"), path_.string());
    EXPECT_EQ(report.at("source"), "a test");
    EXPECT_EQ(report.at("level"), "EXACT");
    EXPECT_EQ(report.at("from"), "start");
    EXPECT_EQ(report.at("status"), "PASSED");
    EXPECT_EQ(report.at("notes"), json::array({replicas_not_recorded}));
    EXPECT_TRUE(report.at("first_divergence").is_null());
    ASSERT_EQ(report.at("rows").size(), 9U);
    const json& last = report.at("rows").back();
    EXPECT_EQ(last.at("phase"), "update");
    EXPECT_EQ(last.at("result"), "parameters");
    EXPECT_EQ(last.at("compared"), 405);
    EXPECT_EQ(last.at("mismatched"), 0);
    EXPECT_EQ(last.at("unbounded"), 0);
    EXPECT_EQ(last.at("nonzero"), 405);
    EXPECT_EQ(last.at("eligible"), 405);
    EXPECT_EQ(last.at("max_ulp"), 0.0);
    EXPECT_EQ(last.at("share_of_limit"), 0.0);
    EXPECT_EQ(last.at("status"), "PASSED");
}

TEST_F(ReportTest, JsonOfAFailureHasThePlaceAndTheValues) {
    set_element(path_, "step/0002/residual/rank2", 80, std::numeric_limits<float>::quiet_NaN());
    const json report = parsed(verdict());
    EXPECT_EQ(report.at("status"), "FAILED");
    const json& first = report.at("first_divergence");
    EXPECT_EQ(first.at("step"), 2);
    EXPECT_EQ(first.at("phase"), "residual");
    EXPECT_EQ(first.at("result"), "residual");
    EXPECT_EQ(first.at("rank"), 2);
    EXPECT_EQ(first.at("tensor"), "mlp");
    EXPECT_EQ(first.at("index"), 45);
    EXPECT_EQ(first.at("coordinate"), 80);
    EXPECT_EQ(first.at("compared"), 81);
    EXPECT_EQ(first.at("mismatched"), 1);
    EXPECT_EQ(first.at("before").size(), 3U);
    ASSERT_EQ(first.at("first").size(), 1U);
    EXPECT_TRUE(first.at("last").empty());
    const json& pair = first.at("first").front();
    EXPECT_EQ(pair.at("coordinate"), 80);
    EXPECT_EQ(pair.at("actual"), "nan") << "JSON has no NaN";
    EXPECT_EQ(pair.at("actual_bits"), "0x7fc00000");
    EXPECT_TRUE(pair.at("expected").is_number());
    EXPECT_EQ(pair.at("ulps"), "inf");
    EXPECT_EQ(pair.at("difference"), "inf");
    EXPECT_EQ(pair.at("limit"), 0.0);
    EXPECT_EQ(pair.at("ok"), false);
    EXPECT_EQ(first.at("greatest").at("coordinate"), 80);
    EXPECT_EQ(first.at("note"), "");
    for (const json& row : report.at("rows")) {
        EXPECT_EQ(row.at("status"), row.at("result") == "residual" ? "FAILED" : "PASSED");
    }
}

TEST_F(ReportTest, JsonNamesNoRankWhereAllHaveTheSame) {
    set_element(path_, "step/0002/parameters", 33, -0.5F);
    EXPECT_TRUE(parsed(verdict()).at("first_divergence").at("rank").is_null());
}

TEST_F(ReportTest, JsonOfABitBeyondTheLastParameterHasNoTensor) {
    support::flip_mask_bit(path_, "step/0002/mask", 87);
    const json report = parsed(verdict());
    const json& first = report.at("first_divergence");
    EXPECT_EQ(first.at("coordinate"), 87);
    EXPECT_FALSE(first.contains("tensor"));
    EXPECT_FALSE(first.contains("index"));
}

TEST_F(ReportTest, JsonOfAStepThatHaltsHasNoCoordinate) {
    set_element(path_, "learning_rate", 1, 1e300);
    const json report = parsed(verdict());
    const json& first = report.at("first_divergence");
    EXPECT_EQ(first.at("step"), 2);
    EXPECT_FALSE(first.contains("coordinate"));
    EXPECT_TRUE(contains(first.at("note").get<std::string>(), "halted"));
    EXPECT_TRUE(contains(text_report(verdict()), "  note: the reference stops here: halted after step 2"));
}

TEST_F(ReportTest, JsonAndTextAgreeOnTheNoteOfAClippedMoment) {
    problem::HyperParameters settings;
    settings.clip_norm = 0.5;
    record(path_, support::small_run(problem::Algorithm::scape, settings));
    set_element(path_, "step/0001/first_moment", 31, 9.0F);
    const TraceVerdict clipped = verdict();
    EXPECT_EQ(clipped.first.value().phase, name(Phase::clip));
    const std::string note = parsed(clipped).at("first_divergence").at("note");
    EXPECT_TRUE(contains(note, "after clipping"));
    EXPECT_TRUE(contains(text_report(clipped), "  note: " + note + "\n"));
}

TEST(EnvironmentReport, NamesVersionsAndCompilerButNoMachineAndNoPlace) {
    const auto report = json_environment();
    for (const char* key : {"truestep", "trace format", "compiler", "build", "arithmetic", "system",
                            "processor", "processor features", "threads of the machine", "Eigen",
                            "nlohmann-json", "CLI11", "MPI", "CUDA", "NCCL"}) {
        ASSERT_TRUE(report.contains(key)) << key;
        EXPECT_FALSE(report.at(key).get<std::string>().empty()) << key;
    }
    EXPECT_EQ(report.at("truestep"), version());
    char host[256] = {};
    ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
    for (const auto& [key, value] : environment()) {
        EXPECT_FALSE(contains(value, std::string("/") + "home")) << key;
        EXPECT_FALSE(std::string(host).size() > 3 && contains(value, host)) << key;
    }
}

TEST(NumbersInTables, AreShortAndNeverAnInfinity) {
    EXPECT_EQ(percent(0.1234), "12.3");
    EXPECT_EQ(percent(1.0), "100.0");
    EXPECT_EQ(report::percent_of_limit(0.1234, false), "12.3");
    EXPECT_EQ(report::percent_of_limit(0.1234, true), ">100");
    EXPECT_EQ(ulps_text(3.0), "3");
    EXPECT_EQ(ulps_text(std::numeric_limits<double>::infinity()), "not comparable");
}

TEST(TableText, HasColumnsAsWideAsTheirWidestCellAndNumbersToTheRight) {
    Table table({{"name"}, {"count", true}, {"note"}});
    table.add({"a", "1", "first"});
    table.add({"longer", "1000000"});
    EXPECT_EQ(table.text("  "), "  name      count  note\n"
                                "  a             1  first\n"
                                "  longer  1000000\n");
    EXPECT_EQ(Table({{"only"}}).text(), "only\n");
}

} // namespace
} // namespace truestep::verify::scape
