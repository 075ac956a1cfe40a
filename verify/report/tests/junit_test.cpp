// Tests JUnit files of results: failure counts, the text of a failure, and several files in one.
#include <truestep/report/junit.hpp>

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "page_support.hpp"
#include "support.hpp"

namespace truestep::report {
namespace {

using nlohmann::ordered_json;
using verify::scape::support::contains;

TEST(JUnit, CountsWhatDidNotPassAsFailures) {
    const std::string xml =
        junit_xml({result({row(), row("FAILED", 3), row("SKIPPED"), row("MISTRUSTED"), row("UNTESTED")},
                          {property(), property("SKIPPED")}, {planted(), planted(false)})});
    EXPECT_TRUE(xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"truestep\" "
                                "tests=\"9\" failures=\"4\" errors=\"0\" skipped=\"2\" "));
    EXPECT_TRUE(contains(xml,
                         "<testsuite name=\"matrix\" tests=\"5\" failures=\"3\" errors=\"0\" skipped=\"1\" "
                         "time=\"0.225000\">"));
    EXPECT_TRUE(contains(
        xml, "<testsuite name=\"properties\" tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"1\""));
    EXPECT_TRUE(
        contains(xml, "<testsuite name=\"planted\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\""));
    EXPECT_EQ(count(xml, "<testcase "), 9U);
    EXPECT_EQ(count(xml, "<failure "), 4U);
    EXPECT_EQ(count(xml, "<skipped "), 2U);
    EXPECT_EQ(count(xml, "<property name=\"compiler\" value=\"GNU 12.2.0\"/>"), 3U) << "once in each suite";
    expect_well_formed(xml);
}

TEST(JUnit, AFailureHoldsTheDivergenceAndTheCommand) {
    ordered_json lines = row("FAILED", 3);
    lines["failure"]["message"] = "two\nlines";
    const std::string xml = junit_xml({result({lines}, {property("SKIPPED")}, {planted(false)})});
    EXPECT_TRUE(
        contains(xml, "<testcase classname=\"matrix.sharded.in_process.REL\" name=\"workers=3 density=0.1 "
                      "partition=by_shard correction=adam\" time=\"0.045000\">"));
    EXPECT_TRUE(
        contains(xml, "<failure message=\"FAILED: two&#10;lines\" type=\"failed\">FAILED: two\nlines\n"))
        << "GitLab shows the text alone";
    EXPECT_TRUE(contains(xml,
                         "first divergence: step 2, phase residual, residual of rank 1, tensor wq, index 1 "
                         "(coordinate 1)\nexpected: 0.5 (0x3f000000)\n  actual: 1.5 (0x3fc00000)\n"));
    EXPECT_TRUE(contains(xml, "repeat with: truestep check --workers 3\n"));
    EXPECT_TRUE(contains(xml, "<skipped message=\"it has no replicas\">it has no replicas</skipped>"));
    EXPECT_TRUE(contains(xml, "<failure message=\"NOT CAUGHT: No property caught this bug"));
}

TEST(JUnit, SeveralFilesAreOne) {
    const std::string xml = junit_xml({result({row()}), result({row("FAILED")})});
    EXPECT_TRUE(contains(xml, "tests=\"2\" failures=\"1\""));
    EXPECT_EQ(count(xml, "<testsuite "), 3U);
    EXPECT_EQ(count(xml, "correction=adam\" time"), 1U);
    EXPECT_EQ(count(xml, "correction=adam (2)\" time"), 1U) << "GitLab keeps one case of a name";
}

} // namespace
} // namespace truestep::report
