// Files that ranks wrote, what is refused in them, and what is found when they are joined.
#include <truestep/verify/collectives/check.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/trace/fingerprint.hpp>

#include "support.hpp"

namespace truestep::verify::collectives {
namespace {

using scape::support::contains;

std::string raw(const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

std::string part(const std::vector<float>& values) {
    std::array<char, 20> digits{};
    std::snprintf(digits.data(), digits.size(), "%016llx",
                  static_cast<unsigned long long>(trace::fingerprint(values)));
    return "[[" + std::to_string(values.size()) + ",\"" + digits.data() + "\"]]";
}

/// Two ranks, of which each all-reduces three values in each call; a test changes a rank's records.
class RunTest : public testing::Test {
  protected:
    struct Reduced {
        std::string op = "SUM";
        std::vector<float> given{1, 2, 3};
        std::vector<float> taken{2, 4, 6};
        std::string flags = {};
    };

    static std::string head(int rank) {
        return R"({"format":"truestep-collectives","version":"1","run":"a","started":1000,"rank":)" +
               std::to_string(rank) + R"(,"world":2,"torch":"2.15","hooks":true,"every":1,"block":1})" +
               "\n" + R"({"group":0,"ranks":[0,1],"ordinal":0})" + "\n";
    }

    static std::string call(int number, const Reduced& reduced) {
        const std::string op = reduced.op.empty() ? "" : R"("op":")" + reduced.op + R"(",)";
        return R"({"call":)" + std::to_string(number) + R"(,"group":0,"number":)" + std::to_string(number) +
               R"(,"name":"ALLREDUCE",)" + op + R"("shapes":[[["float32",)" +
               std::to_string(reduced.given.size()) + R"(]],[]],"stack":["train.py:)" +
               std::to_string(number + 10) + R"( step"],"in":)" + part(reduced.given) + R"(,"bytes":)" +
               std::to_string(reduced.given.size() * 4) + "}\n" + raw(reduced.given) + "\n" +
               R"({"done":)" + std::to_string(number) + R"(,"out":)" + part(reduced.taken) + reduced.flags +
               R"(,"bytes":)" + std::to_string(reduced.taken.size() * 4) + "}\n" + raw(reduced.taken) +
               "\n";
    }

    std::string write(int rank, const std::string& text) const {
        const std::string path = (folder_ / ("run.rank" + std::to_string(rank) + ".collectives")).string();
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }

    Verdict checked(const std::string& first, const std::string& second) const {
        return check(read_run({write(0, head(0) + first), write(1, head(1) + second)}));
    }

    std::string refused(const std::string& first, const std::string& second) const {
        try {
            const Verdict verdict = check(read_run({write(0, first), write(1, second)}));
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    }

    scape::support::TemporaryFolder folder_;
    std::string end_ = "{\"end\":1}\n";
};

TEST(Recording, SampledIndicesAreThoseOfPython) { // test_watch.py has the same figures
    EXPECT_EQ(sampled_indices(10, 1, 3), (std::vector<Index>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    EXPECT_EQ(sampled_indices(6400, 1000, 7).size(), 64U);
    EXPECT_EQ(sampled_indices(6400, 100, 7)[4], 456);
}

TEST(Recording, TheChanceOfASample) {
    EXPECT_NEAR(chance_seen(1000, 1), 0.001, 1e-12);
    EXPECT_NEAR(chance_seen(1000, 1000), 0.6323, 1e-4);
    EXPECT_EQ(chance_seen(1, 1), 1.0);
}

TEST_F(RunTest, ARightRunHolds) {
    const Verdict verdict = checked(call(0, {}) + end_, call(0, {}) + end_);
    EXPECT_TRUE(verdict.holds()) << text_report(verdict);
    EXPECT_EQ(verdict.counts.at("all-reduce float32").checked, 1);
    EXPECT_TRUE(contains(text_report(verdict), "hold: all of 1 collectives"));
    EXPECT_TRUE(json_report(verdict).at("holds"));
}

TEST_F(RunTest, EachKindOfMistakeIsFound) {
    const auto kind = [&](const Reduced& one, const Reduced& other) {
        const Verdict verdict = checked(call(0, one) + end_, call(0, other) + end_);
        return verdict.holds() ? "" : verdict.findings[0].kind;
    };
    EXPECT_EQ(kind({.op = "AVG"}, {.op = "AVG"}), "op");
    EXPECT_EQ(kind({.taken = {2, 4, 7}}, {.taken = {2, 4, 7}}), "value");
    EXPECT_EQ(kind({}, {.taken = {2, 4, 7}}), "copy");
    EXPECT_EQ(kind({}, {.taken = {2, 4, 7}, .flags = R"(,"overwritten":false,"written":true)"}),
              "overwritten");
    EXPECT_EQ(kind({}, {.flags = R"(,"overwritten":true,"written":false)"}), "overwritten");
    EXPECT_EQ(kind({.op = "MAX"}, {.op = "SUM"}), "order");
    EXPECT_EQ(kind({}, {.given = {1, 2}, .taken = {2, 4}}), "order");
    EXPECT_EQ(kind({}, {.op = ""}), ""); // C++ called it on one rank: nobody saw the op there
}

TEST_F(RunTest, ACallThatIsAnotherThanAllOfItsPlaceIsFound) {
    std::string calls;
    Reduced one{"", std::vector<float>(16, 3.0F), std::vector<float>(16, 6.0F)};
    one.given[3] = 1;
    one.taken[3] = 2;
    for (int number = 0; number < 9; ++number) {
        std::string text = call(number, one);
        if (number == 6)
            text = call(number,
                        {"", one.given, one.given}); // of two ranks that gave the same that is their mean
        calls += text.replace(text.find("train.py:"), 11, "train.py:10");
    }
    const Verdict verdict = checked(calls + "{\"end\":9}\n", calls + "{\"end\":9}\n");
    ASSERT_EQ(verdict.findings.size(), 1U) << text_report(verdict);
    EXPECT_EQ(verdict.findings[0].at, 6);
    EXPECT_TRUE(contains(verdict.findings[0].what,
                         "the mean, and those of 8 other calls from the same place are the sum"));
}

TEST_F(RunTest, ARankThatEndedWithoutACallIsFoundAndOneThatWasKilledIsNot) {
    const std::string both = call(0, {}) + call(1, {});
    const Verdict verdict = checked(both + "{\"end\":2}\n", call(0, {}) + end_);
    ASSERT_EQ(verdict.findings.size(), 1U);
    EXPECT_TRUE(contains(verdict.findings[0].what, "rank 1 has ended without it"));
    const Verdict killed = checked(both, call(0, {}));
    EXPECT_TRUE(killed.holds());
    EXPECT_TRUE(contains(text_report(killed), "rank1.collectives has no end"));
}

TEST_F(RunTest, AFileThatIsCutAnywhereIsReadUpToThere) {
    const std::string whole = head(1) + call(0, {}) + call(1, {}) + "{\"end\":2}\n";
    const std::string first = write(0, head(0) + call(0, {}) + call(1, {}) + "{\"end\":2}\n");
    std::size_t read = 0;
    for (std::size_t length = head(1).size(); length < whole.size(); ++length) {
        const Verdict verdict = check(read_run({first, write(1, whole.substr(0, length))}));
        EXPECT_TRUE(verdict.holds()) << length << text_report(verdict);
        read += verdict.counts.contains("all-reduce float32")
                    ? static_cast<std::size_t>(verdict.counts.at("all-reduce float32").checked)
                    : 0;
    }
    EXPECT_GT(read, whole.size() / 4);
}

TEST_F(RunTest, BadInputIsRefusedInALine) {
    const std::string good = head(1) + call(0, {}) + end_;
    const auto changed = [&](const std::string& from, const std::string& to) {
        std::string text = good;
        return refused(head(0) + call(0, {}) + end_, text.replace(text.find(from), from.size(), to));
    };
    EXPECT_TRUE(contains(changed(R"("version":"1")", R"("version":"2")"),
                         "record 1: its version is '2', and this tool reads version 1"));
    EXPECT_TRUE(contains(changed(R"("run":"a")", R"("run":"b")"), "it is of another run than"));
    EXPECT_TRUE(contains(changed(R"("started":1000)", R"("started":9000)"), "it began 8000 seconds apart"));
    EXPECT_TRUE(contains(changed(R"("rank":1)", R"("rank":0)"), "it is of rank 0, as"));
    EXPECT_TRUE(contains(changed(R"("call":0)", R"("call":1)"), "call 1 where call 0 would follow"));
    EXPECT_TRUE(
        contains(changed(R"("done":0)", R"("done":7)"), "it is about call 7, which no record begins"));
    EXPECT_TRUE(
        contains(changed(R"("bytes":12)", R"("bytes":11)"), "its values do not end where they should"));
    EXPECT_TRUE(contains(changed(R"("stack")", R"("stuck")"), "stack"));
    EXPECT_TRUE(contains(changed(R"("ranks":[0,1])", R"("ranks":[0,2])"), "a group"));
    EXPECT_TRUE(contains(changed(R"("end":1)", R"("end":2)"), "it counts other calls than there are"));
    EXPECT_TRUE(
        contains(changed(R"([[3,")", R"([[2,")"), "has other values than its shapes and sample tell"));
    EXPECT_TRUE(contains(refused(head(0), ""), "there is nothing in it"));
}

} // namespace
} // namespace truestep::verify::collectives
