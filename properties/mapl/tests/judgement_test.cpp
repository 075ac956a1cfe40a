// Level REL on A and m, at small and at real sizes: right runs pass, whatever the order of their sums, and
// each known bug fails. Built three times: with TRUESTEP_LARGE for sizes that take seconds, and for
// minutes.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/mapl/spel_step.hpp>
#include <truestep/verify/mapl/judgement.hpp>
#include <truestep/verify/mapl/traces.hpp>

namespace truestep::properties::mapl {
namespace {

using namespace problem::mapl;
using namespace reference::mapl;
using namespace distributed::mapl;
using Plain = Eigen::MatrixXd;

constexpr double rate = 0.05;

struct Size {
    Index width, rank, tokens;
};

#if TRUESTEP_LARGE == 1024
constexpr Size sizes[]{{512, 256, 64}, {1024, 512, 64}};
#elif TRUESTEP_LARGE == 512
constexpr Size sizes[]{{512, 128, 64}};
#else
constexpr Size sizes[]{{8, 1, 4}, {8, 3, 12}, {8, 4, 64}, {64, 32, 16}, {128, 32, 64}};
#endif

std::string name_of(const Size& of) {
    return std::to_string(of.width) + "x" + std::to_string(of.rank);
}

Floats floats_from(const Plain& of) {
    const Matrix<float> rows = of.cast<float>();
    return {rows.data(), rows.data() + rows.size()};
}

std::vector<float> vector_of(const Floats& of) {
    return {of.begin(), of.end()};
}

/// The second step of a run, so that m is not 0 before it. A `mean` other than 0 makes one direction of X
/// and G much stronger than the others.
struct Step {
    Step(const Size& of, Order order, double mean) {
        settings.width = of.width;
        settings.rank = of.rank;
        settings.order = order;
        std::mt19937_64 random(7);
        const auto drawn = [&](Index rows) {
            Plain made(rows, of.width);
            for (Index i = 0; i < made.size(); ++i)
                made.data()[i] = static_cast<double>(random() >> 11U) * 0x1p-52 - 1.0 + mean;
            return Plain(made.cast<float>().cast<double>());
        };
        const std::vector<float> start = first_subspace(of.width, of.rank, 5);
        new_a.assign(start.begin(), start.end());
        new_m.assign(start.size(), 0.0F);
        for (int step = 0; step < 2; ++step) {
            a = new_a;
            m = new_m;
            X = drawn(of.tokens);
            G = drawn(of.tokens);
            const Plain A = matrix(a);
            gradient = floats_from(X.transpose() * (G * A) + G.transpose() * (X * A));
            EXPECT_TRUE(spel_step(settings, gradient, rate, new_a, new_m));
        }
    }

    [[nodiscard]] Plain matrix(const Floats& of) const {
        return verify::mapl::rows_of<double>(vector_of(of), settings.rank);
    }
    /// The share of its limit that this A takes.
    [[nodiscard]] double share(const Floats& given) const {
        const verify::mapl::Judgement next =
            verify::mapl::next_subspace(settings, vector_of(a), vector_of(new_m), rate);
        const auto [off, limit] = next.greatest(matrix(given));
        return off / limit;
    }

    Settings settings;
    Plain X, G;
    Floats gradient, a, m, new_a, new_m;
};

Plain projected(const Step& step, const Plain& M) {
    const Plain A = step.matrix(step.a);
    const Plain inner = A.transpose() * M;
    return M - A * (0.5 * (inner + inner.transpose()));
}

/// The matrix whose polar factor is d.
Plain to_be_polar(const Step& step) {
    const Plain m = step.matrix(step.new_m);
    return step.settings.order == Order::project_first ? m : projected(step, m);
}

Plain polynomial(const Quintic& c, const Plain& X) {
    const Plain S = X.transpose() * X;
    return X * (c[0] * Plain::Identity(S.rows(), S.cols()) +
                S * (c[1] * Plain::Identity(S.rows(), S.cols()) + c[2] * S));
}

Plain iterated_polar(const Plain& M, int iterations = 8) {
    Plain X = M / (1.01 * M.norm() + 1e-7);
    for (int t = 0; t < iterations; ++t)
        X = polynomial(polar_express(t), X);
    return X;
}

/// A after a step along d.
Floats stepped(const Step& step, const Plain& d, double by = rate) {
    return floats_from(polynomial(endless, polynomial(endless, step.matrix(step.a) - by * d)));
}

struct KnownBug {
    const char* name;
    Floats (*made)(const Step& step);
};

const KnownBug known_bugs[]{
    {"NotUpdated", [](const Step& step) { return step.a; }},
    {"NoPolar",
     [](const Step& step) {
         const Plain M = to_be_polar(step);
         return stepped(step, M / (1.01 * M.norm()));
     }},
    {"OfMomentumItself", [](const Step& step) { return stepped(step, to_be_polar(step)); }},
    {"WrongSign", [](const Step& step) { return stepped(step, -iterated_polar(to_be_polar(step))); }},
    {"RateHalved",
     [](const Step& step) { return stepped(step, iterated_polar(to_be_polar(step)), rate / 2); }},
    {"FiveIterations",
     [](const Step& step) { return stepped(step, iterated_polar(to_be_polar(step), 5)); }},
    {"OfTheGradient",
     [](const Step& step) {
         return stepped(step, iterated_polar(projected(step, step.matrix(step.gradient))));
     }},
    {"Transposed",
     [](const Step& step) {
         const Plain d = iterated_polar(to_be_polar(step));
         return stepped(step, Eigen::Map<const Matrix<double>>(d.data(), d.rows(), d.cols()));
     }},
    {"NotProjected", // under project_first m shows it
     [](const Step& step) {
         const Plain M =
             step.matrix(step.settings.order == Order::project_first ? step.gradient : step.new_m);
         return stepped(step, iterated_polar(M));
     }},
};

/// Where a trace first differs at this level, or nothing.
std::string phase_of(const verify::mapl::Recording& recording, const verify::Level& level) {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '_');
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / ("mapl_judgement_" + name + ".safetensors");
    verify::mapl::write(file, recording, "judgement_test");
    verify::VerifyOptions options;
    options.level = level;
    const verify::TraceVerdict verdict = verify::mapl::verify_trace(file, options);
    std::filesystem::remove(file);
    return verdict.first ? verdict.first->phase : "";
}

/// One step as a trace, verified at REL: where it first differs, or nothing.
std::string phase_of(const Step& step, const Floats& m, const Floats& a) {
    verify::mapl::Recording recording;
    recording.config.settings = step.settings;
    recording.config.tokens = step.X.rows();
    recording.numbers["rate"] = {rate};
    recording.numbers["ids"] = std::vector<double>(static_cast<std::size_t>(step.X.rows()), 0.0);
    const auto keep = [&](const std::string& name, const Floats& values) {
        recording.vectors[name] = vector_of(values);
    };
    keep("initial/A", step.a);
    keep("initial/m", step.m);
    keep(verify::mapl::of_step(1, "X.1"), floats_from(step.X));
    keep(verify::mapl::of_step(1, "G.1"), floats_from(step.G));
    keep(verify::mapl::of_step(1, "gradient"), step.gradient);
    keep(verify::mapl::of_step(1, "m"), m);
    keep(verify::mapl::of_step(1, "A"), a);
    keep(verify::mapl::of_step(1, "A_receiver"), a);
    return phase_of(recording, verify::Level::rel());
}

/// Reversed: a step of this is the same step with its sums in another order.
Floats reversed(const Floats& of) {
    return {of.rbegin(), of.rend()};
}

/// Products from the last index to the first, each added without rounding it before, as fma does.
Matrix<float> fused(const Matrix<float>& a, const Matrix<float>& b) {
    Matrix<float> product = Matrix<float>::Zero(a.rows(), b.cols());
    for (Index i = 0; i < a.rows(); ++i)
        for (Index k = a.cols(); k-- > 0;)
            for (Index j = 0; j < b.cols(); ++j)
                product(i, j) =
                    static_cast<float>(static_cast<double>(a(i, k)) * static_cast<double>(b(k, j)) +
                                       static_cast<double>(product(i, j)));
    return product;
}

Matrix<float> fused_polynomial(const Quintic& c, const Matrix<float>& X) {
    const Matrix<float> S = fused(transposed(X), X);
    const Matrix<float> fourth = fused(S, S);
    return fused(X, scaled(static_cast<float>(c[2]), fourth) + scaled(static_cast<float>(c[1]), S) +
                        scaled(static_cast<float>(c[0]),
                               Matrix<float>(Matrix<float>::Identity(S.rows(), S.cols()))));
}

Floats fused_step(const Step& step) {
    const Matrix<float> A = verify::mapl::rows_of<float>(vector_of(step.a), step.settings.rank);
    Matrix<float> X = verify::mapl::rows_of<float>(vector_of(step.new_m), step.settings.rank);
    if (step.settings.order == Order::momentum_first)
        X = minus(X, fused(A, sym(fused(transposed(A), X))));
    X = scaled(1.0F / (1.01F * X.norm() + 1e-7F), X);
    for (int t = 0; t < step.settings.direction_iterations; ++t)
        X = fused_polynomial(polar_express(t), X);
    X = minus(A, scaled(static_cast<float>(rate), X));
    for (int t = 0; t < step.settings.retraction_iterations; ++t)
        X = fused_polynomial(endless, X);
    return {X.data(), X.data() + X.size()};
}

constexpr double means[]{0.0, 1.0};

class MaplJudgement : public ::testing::TestWithParam<std::tuple<Size, Order>> {
  protected:
    [[nodiscard]] static Step step(double mean) {
        return {std::get<Size>(GetParam()), std::get<Order>(GetParam()), mean};
    }
};

// A tenth of the limit is far more than any run takes: a false accusation would take ten times as much.
TEST_P(MaplJudgement, RightRunsPassWhateverTheOrderOfTheirSums) {
    for (const double mean : means) {
        const Step of = step(mean);
        EXPECT_LE(of.share(of.new_a), 0.1);
        Floats m = reversed(of.m);
        Floats a = reversed(of.a);
        ASSERT_TRUE(spel_step(of.settings, reversed(of.gradient), rate, a, m));
        if (of.settings.width > 8) { // a few sums may round alike
            EXPECT_NE(reversed(a), of.new_a);
        }
        Step other = of;
        other.new_m = reversed(m);
        EXPECT_LE(other.share(reversed(a)), 0.1);
        EXPECT_EQ(phase_of(of, other.new_m, reversed(a)), "");
        if (of.settings.width > 128)
            continue; // plain loops take too long
        EXPECT_LE(of.share(fused_step(of)), 0.1);
        const SpelStep<float> made =
            spel(of.settings, verify::mapl::rows_of<float>(vector_of(of.a), of.settings.rank),
                 verify::mapl::rows_of<float>(vector_of(of.m), of.settings.rank),
                 verify::mapl::rows_of<float>(vector_of(of.gradient), of.settings.rank), rate);
        other.new_m.assign(made.m.data(), made.m.data() + made.m.size());
        EXPECT_LE(other.share({made.A.data(), made.A.data() + made.A.size()}), 0.1);
    }
}

TEST_P(MaplJudgement, AWrongMomentFails) {
    const Step of = step(1.0);
    Floats m = of.new_m;
    for (float& value : m)
        value *= 1.08F;
    EXPECT_EQ(phase_of(of, m, of.new_a), "momentum");
    if (of.settings.order == Order::momentum_first)
        return;
    const auto beta = static_cast<float>(of.settings.beta);
    for (std::size_t i = 0; i < m.size(); ++i)
        m[i] = beta * of.m[i] + (1.0F - beta) * of.gradient[i];
    EXPECT_EQ(phase_of(of, m, of.new_a), "momentum");
}

#if TRUESTEP_LARGE == 0
// dZ is 3e38, but the sum is infinite after its third term: REL does not judge it, and A and m stay.
TEST(MaplOverflow, OfPartialSumsIsNoDifference) {
    verify::mapl::Recording recording;
    recording.config.settings.width = 4;
    recording.config.settings.rank = 1;
    Boundary<float> boundary;
    boundary.A = Matrix<float>::Constant(4, 1, 0.5F);
    Matrix<float> G = Matrix<float>::Constant(1, 4, 3e38F);
    G(0, 3) = -3e38F;
    const Forward<float> went = boundary.forward(Matrix<float>::Constant(1, 4, 1.0F), {0});
    Gradients<float> gradients = boundary.no_gradients();
    const Backward<float> back = boundary.backward(G, went, gradients);
    ASSERT_TRUE(std::isinf(back.dZ(0, 0)));
    recording.numbers = {{"rate", {rate}}, {"ids", {0.0}}};
    const auto keep = [&](const std::string& name, const Matrix<float>& values) {
        recording.vectors[name] = {values.data(), values.data() + values.size()};
    };
    const Matrix<float> zero = Matrix<float>::Zero(4, 1);
    keep("initial/A", boundary.A);
    keep(verify::mapl::of_step(1, "X.1"), Matrix<float>::Constant(1, 4, 1.0F));
    keep(verify::mapl::of_step(1, "G.1"), G);
    keep(verify::mapl::of_step(1, "dZ.1"), back.dZ);
    keep(verify::mapl::of_step(1, "dX.1"), back.dX);
    keep(verify::mapl::of_step(1, "m"), zero);
    keep(verify::mapl::of_step(1, "A"), boundary.A);
    keep(verify::mapl::of_step(1, "A_receiver"), boundary.A);
    for (const bool with_gradient : {false, true}) {
        if (with_gradient)
            keep(verify::mapl::of_step(1, "gradient"), gradients.of_basis());
        EXPECT_EQ(phase_of(recording, verify::Level::rel()), "");
        EXPECT_EQ(phase_of(recording, verify::Level::exact()), "");
    }
    keep(verify::mapl::of_step(1, "m"), Matrix<float>::Constant(4, 1, 1.0F));
    EXPECT_EQ(phase_of(recording, verify::Level::rel()), "momentum");
}
#endif

std::string order_name(Order of) {
    return of == Order::project_first ? "ProjectFirst" : "MomentumFirst";
}

constexpr Order both[]{Order::project_first, Order::momentum_first};

INSTANTIATE_TEST_SUITE_P(All, MaplJudgement,
                         ::testing::Combine(::testing::ValuesIn(sizes), ::testing::ValuesIn(both)),
                         [](const auto& of) {
                             return name_of(std::get<Size>(of.param)) +
                                    order_name(std::get<Order>(of.param));
                         });

class MaplMistakes : public ::testing::TestWithParam<std::tuple<Size, Order, KnownBug>> {};

TEST_P(MaplMistakes, Fails) {
    const auto& [size, order, known_bug] = GetParam();
    if (size.rank == 1 && std::string(known_bug.name) == "Transposed")
        GTEST_SKIP() << "a column is its own transposed";
    for (const double mean : means) {
        const Step of(size, order, mean);
        const double share = of.share(known_bug.made(of));
        EXPECT_GT(share, 2.0) << "mean " << mean;
        RecordProperty(mean == 0.0 ? "share" : "share_of_a_strong_direction", std::to_string(share));
    }
}

INSTANTIATE_TEST_SUITE_P(All, MaplMistakes,
                         ::testing::Combine(::testing::ValuesIn(sizes), ::testing::ValuesIn(both),
                                            ::testing::ValuesIn(known_bugs)),
                         [](const auto& of) {
                             return name_of(std::get<Size>(of.param)) +
                                    order_name(std::get<Order>(of.param)) +
                                    std::get<KnownBug>(of.param).name;
                         });

} // namespace
} // namespace truestep::properties::mapl
