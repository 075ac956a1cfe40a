// A plain SCAPE and AdamS with known bugs that can be switched on: verify has to name each, also in
// other arithmetics.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/reference/scape/selection.hpp>
#include <truestep/verify/diagnosis.hpp>
#include <truestep/verify/scape/traces.hpp>

#include "bf16_stranger.hpp"
#include "verify_trace_support.hpp"

namespace truestep::verify::scape {
namespace {

using Lines = std::vector<std::string>;
using problem::Algorithm;

enum class SeededBug {
    none,
    count_before,
    count_frozen,
    epsilon_inside,
    moment_local,
    moment_kept,
    second_moment_own,
    residual_by_next,
    residual_twice,
    residual_of_one_rank, ///< cleared everywhere, only by rank 1
};

/// Sections 3 and 4 in loops. It computes in double and rounds what it stores: the bits differ from
/// the reference's, but are within REL.
class Plain {
  public:
    Plain(const problem::Problem& problem, double density, SeededBug slip)
        : problem_(problem), density_(density), slip_(slip), d_(problem.layout.size()), w_(ranks()),
          m_(ranks()), e_(ranks()) {
        for (std::size_t r = 0; r < ranks(); ++r) {
            w_[r].resize(d_);
            for (Index i = 0; i < d_; ++i)
                w_[r][i] = initial_parameter(DataClass::normal, 7, i);
            m_[r] = e_[r] = Vector<float>::Zero(d_);
        }
    }

    [[nodiscard]] std::vector<float> parameters() const { return {w_[0].data(), w_[0].data() + d_}; }

    void step(TraceWriter& writer, double rate) {
        ++t_;
        const auto& s = problem_.settings;
        PerRank<float> g(ranks(), Vector<float>(d_));
        PerRank<float> c = g;
        for (std::size_t r = 0; r < ranks(); ++r)
            for (Index i = 0; i < d_; ++i) {
                g[r][i] = gradient_value(DataClass::normal, 7, static_cast<int>(r), t_, i);
                c[r][i] = rounded((s.beta1 * d(m_[r][i])) + ((1 - s.beta1) * d(g[r][i])) + d(e_[r][i]));
            }
        const bool sparse = problem_.algorithm == Algorithm::scape;
        Coordinates next(static_cast<std::size_t>(d_));
        std::iota(next.begin(), next.end(), Index{0});
        if (sparse)
            next = reference::scape::select_mask(c, problem_, density_);
        const Coordinates S = S_.value_or(next);
        S_ = next;
        const PerRank<float> before = m_;
        for (std::size_t r = 0; r < ranks(); ++r)
            update(r, rate, S, c, g, before[r]);
        if (sparse)
            for (std::size_t r = 0; r < ranks(); ++r)
                store_residual(r, S, next, c[r], g[r], before[r]);
        StepResults<float> results;
        results.mask = S;
        results.next_mask = next;
        if (sparse)
            results.residual = e_;
        std::vector<Replica> own;
        for (std::size_t r = 0; r < ranks(); ++r)
            own.push_back({to_bits(S, d_), to_bits(next, d_), m_[r], w_[r]});
        results.first_moment = m_[0];
        results.parameters = w_[0];
        writer.write_step(g, results, own);
    }

  private:
    static double d(float value) { return static_cast<double>(value); }
    static float rounded(double value) { return static_cast<float>(value); }
    [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(problem_.workers); }

    [[nodiscard]] Index count() const {
        return slip_ == SeededBug::count_before   ? std::max<Index>(1, t_ - 1)
               : slip_ == SeededBug::count_frozen ? std::min<Index>(2, t_)
                                                  : t_;
    }

    void update(std::size_t r, double rate, const Coordinates& S, const PerRank<float>& c,
                const PerRank<float>& g, const Vector<float>& m) {
        const auto& s = problem_.settings;
        const double C1 = 1 - std::pow(s.beta1, static_cast<double>(count()));
        const double C2 = 1 - std::pow(s.beta2, static_cast<double>(count()));
        m_[r].setZero();
        for (Index i = 0; i < d_; ++i)
            w_[r][i] = rounded(d(w_[r][i]) * (1 - rate * s.weight_decay));
        for (const Index i : S) {
            double M = 0;
            for (const Vector<float>& one : c)
                M += d(one[i]) / problem_.workers;
            if (slip_ == SeededBug::moment_local)
                M = d(c[r][i]);
            double ghat = (M - s.beta1 * d(m[i])) / (1 - s.beta1);
            if (slip_ == SeededBug::second_moment_own)
                ghat = d(g[r][i]);
            const double v = (s.beta2 * d(m[i]) * d(m[i])) + ((1 - s.beta2) * ghat * ghat);
            const double root = slip_ == SeededBug::epsilon_inside
                                    ? std::sqrt((v / C2) + s.epsilon)
                                    : (std::sqrt(v) / std::sqrt(C2)) + s.epsilon;
            w_[r][i] = rounded(d(w_[r][i]) - (rate * (M / C1) / root));
            m_[r][i] = slip_ == SeededBug::moment_kept ? c[r][i] : rounded(M);
        }
    }

    void store_residual(std::size_t r, const Coordinates& S, const Coordinates& next,
                        const Vector<float>& c, const Vector<float>& g, const Vector<float>& m) {
        const double b1 = problem_.settings.beta1;
        e_[r] = c;
        if (slip_ == SeededBug::residual_twice)
            for (Index i = 0; i < d_; ++i)
                e_[r][i] = rounded((b1 * d(m[i])) + ((1 - b1) * d(g[i])) + d(c[i]));
        e_[r](slip_ == SeededBug::residual_by_next ? next : S).setZero();
        if (slip_ == SeededBug::residual_of_one_rank && r == 1)
            e_[r].setZero();
    }

    problem::Problem problem_;
    double density_;
    SeededBug slip_;
    Index d_;
    PerRank<float> w_, m_, e_;
    std::optional<Coordinates> S_;
    Index t_ = 0;
};

class MistakesTest : public VerifyTraceTest {
  protected:
    void record_plain(SeededBug slip, Algorithm algorithm, Index steps = 6) const {
        problem::HyperParameters settings;
        settings.epsilon = 1e-3; // otherwise its place would not matter
        const RecordOptions options = support::small_run(algorithm, settings);
        Plain run(options.problem, 0.25, slip);
        TraceHead head{"a test",
                       options.problem,
                       std::vector<double>(static_cast<std::size_t>(steps), 0.01),
                       {},
                       run.parameters()};
        head.density.assign(static_cast<std::size_t>(steps) + 1,
                            algorithm == Algorithm::scape ? 0.25 : 1.0);
        TraceWriter writer(path_, head, false, trace::Replicas::copies);
        for (Index step = 1; step <= steps; ++step)
            run.step(writer, 0.01);
        writer.finish();
    }

    [[nodiscard]] Lines diagnosis(const Level& level) const {
        VerifyOptions options;
        options.level = level;
        return what_may_be_wrong(scape_traces(), verify_trace(path_, options), options);
    }

    void expect_named(const std::string& name,
                      const std::vector<Level>& levels = {Level::exact(), Level::rel()}) const {
        for (const Level& level : levels) {
            const Lines lines = diagnosis(level);
            ASSERT_FALSE(lines.empty()) << verify::name(level) << ": nothing said of '" << name << "'";
            EXPECT_EQ(lines.front().rfind(name + ": ", 0), 0U)
                << verify::name(level) << ": " << lines.front();
            EXPECT_TRUE(support::contains(lines.front(), " wrong values of step ")) << lines.front();
        }
    }
};

TEST_F(MistakesTest, OfARunThatIsRightNoneIsNamed) {
    for (const Algorithm algorithm : {Algorithm::scape, Algorithm::adams}) {
        record_plain(SeededBug::none, algorithm);
        EXPECT_EQ(verify_from(path_, ReferenceStart::recorded, Level::rel()).status, Status::passed);
        EXPECT_EQ(verify_from(path_, ReferenceStart::recorded).status, Status::failed)
            << "its roundings are its own";
        EXPECT_EQ(diagnosis(Level::rel()), Lines{});
        for (const std::string& line : diagnosis(Level::exact()))
            EXPECT_TRUE(support::contains(line, "only rounding differs; try --level rel")) << line;
    }
}

TEST_F(MistakesTest, EachIsNamedBehindARounding) {
    for (const Algorithm algorithm : {Algorithm::scape, Algorithm::adams}) {
        record_plain(SeededBug::count_before, algorithm);
        expect_named("the bias correction is by t - 1 in place of t");
        record_plain(SeededBug::count_frozen, algorithm);
        expect_named("the bias correction is frozen at step 2");
        record_plain(SeededBug::epsilon_inside, algorithm);
        expect_named("eps stands inside the root, sqrt(v/C2 + eps)");
        record_plain(SeededBug::moment_local, algorithm);
        expect_named("first_moment stays local: it is not exchanged, and the update is by it");
        record_plain(SeededBug::moment_kept, algorithm);
        expect_named("first_moment stays local: each rank keeps its own, and updates by the mean");
        record_plain(SeededBug::second_moment_own, algorithm);
        expect_named("v is made from the rank's own gradient, not from the mean one");
    }
    record_plain(SeededBug::residual_by_next, Algorithm::scape);
    expect_named("the residual is cleared by next_mask in place of mask");
    record_plain(SeededBug::residual_twice, Algorithm::scape);
    expect_named("the residual is counted twice: momentum and gradient are added to it again");
    record_plain(SeededBug::residual_of_one_rank, Algorithm::scape);
    expect_named("the residual is cleared everywhere, not on the mask alone (on rank 1 only)");
}

TEST_F(MistakesTest, WhatDoesTheSameIsSaid) {
    record_plain(SeededBug::count_before, Algorithm::adams, 2);
    expect_named(
        "the bias correction is by t - 1 in place of t, or the bias correction is frozen at step 1");
}

TEST_F(MistakesTest, WhereItPartsAtBoundsIsSaidWhereARoundingComesFirst) {
    record_plain(SeededBug::count_frozen, Algorithm::adams);
    const Lines lines = diagnosis(Level::exact());
    ASSERT_GE(lines.size(), 2U);
    EXPECT_EQ(lines[1].rfind("at REL the first difference is at step 3, phase update, parameters ", 0), 0U)
        << lines[1];
}

TEST_F(MistakesTest, AStepThatWasRefusedDoesNotCount) {
    RecordOptions options = support::small_run();
    options.injections = {{2, 1, 17, nan(0.0F)}};
    record(path_, options);
    support::set_element(path_, "step/0004/residual/rank1", 3, 9.0F);
    for (const std::string& line : diagnosis(Level::rel()))
        EXPECT_FALSE(support::contains(line, "wrong values of step 4")) << line;
}

TEST_F(MistakesTest, WhereNoMaskIsRecordedTheStepBeforeMakesIt) {
    record_plain(SeededBug::count_frozen, Algorithm::scape); // right up to step 2
    support::FileImage image(path_);
    image.drop_result("mask");
    image.drop_result("next_mask");
    image.save(path_);
    expect_named("the bias correction is frozen at step 2");
}

// Its decay_order has no EXACT.
TEST_F(MistakesTest, TheArtifactsWrongRunIsNamed) {
    path_ = std::filesystem::path(TRUESTEP_FIXTURES) /
            "artifact/disagree/scape_v2_p3_default_residual_twice.safetensors";
    expect_named("the residual is counted twice: momentum and gradient are added to it again",
                 {Level::rel()});
}

TEST_F(MistakesTest, OfARunInBf16ItIsNamedWithinTheBoundsOfBf16) {
    support::Habits habits;
    habits.known_bug = support::KnownBug::residual_kept;
    support::record_stranger(path_, support::small_run(), habits);
    expect_named("the residual is not cleared where it was sent", {Level::exact(), Level::bf16()});
    support::record_stranger(path_, support::small_run(), {});
    EXPECT_EQ(diagnosis(Level::bf16()), Lines{});
}

} // namespace
} // namespace truestep::verify::scape
