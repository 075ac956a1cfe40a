// The tested pipeline in double: all gradients, through all stages and boundaries, against finite
// differences (property 11).
#include <vector>

#include <gtest/gtest.h>

#include <truestep/reference/mapl/boundary.hpp>

#include "network.hpp"

namespace truestep::properties::mapl {
namespace {

using Real = Matrix<double>;

Real pseudo(Index rows, Index columns, std::uint64_t what) {
    Case run;
    run.data = DataClass::normal;
    const Floats values = synthetic(run, what, 0, 0, rows * columns);
    Real made(rows, columns);
    for (Index i = 0; i < made.size(); ++i)
        made.data()[i] = static_cast<double>(values[static_cast<std::size_t>(i)]);
    return made;
}

struct Whole {
    static constexpr Index tokens = 4;
    static constexpr Index width = 5;
    static constexpr Index rank = 2;
    std::vector<Network<double>> stages;
    std::vector<Boundary<double>> boundaries;
    Ids ids{1, 0, 1, 2};
    Real X = pseudo(tokens, width, 1);
    Real target = pseudo(tokens, width, 2);

    struct Passing {
        std::vector<Network<double>::ForwardValues> stages;
        std::vector<Forward<double>> boundaries;
        Real Y;
    };
    [[nodiscard]] Passing forward() const {
        Passing made;
        made.stages.resize(stages.size());
        Real x = X;
        for (std::size_t s = 0; s < stages.size(); ++s) {
            x = stages[s].forward(x, made.stages[s]);
            if (s < boundaries.size()) {
                made.boundaries.push_back(boundaries[s].forward(x, ids));
                x = made.boundaries.back().Xhat;
            }
        }
        made.Y = x;
        return made;
    }
    [[nodiscard]] double loss() const { return 0.5 * (forward().Y - target).squaredNorm(); }
};

Real slope(const Whole& whole, Real& at) {
    Real made(at.rows(), at.cols());
    constexpr double h = 1e-6;
    for (Index i = 0; i < at.size(); ++i) {
        const double kept = at.data()[i];
        at.data()[i] = kept + h;
        const double up = whole.loss();
        at.data()[i] = kept - h;
        made.data()[i] = (up - whole.loss()) / (2.0 * h);
        at.data()[i] = kept;
    }
    return made;
}

TEST(MaplNetwork, GradientsOfEverythingAreThoseOfFiniteDifferences) {
    for (const std::size_t stages : {1U, 2U, 3U, 4U}) {
        Whole whole;
        for (std::size_t s = 0; s < stages; ++s)
            whole.stages.push_back({pseudo(5, 5, 10 + s), pseudo(5, 5, 20 + s)});
        for (std::size_t b = 0; b + 1 < stages; ++b)
            whole.boundaries.push_back({pseudo(5, 2, 30 + b),
                                        {pseudo(3, 2, 40 + b), pseudo(2, 5, 50 + b)},
                                        {pseudo(3, 2, 60 + b), pseudo(2, 5, 70 + b)},
                                        true});
        const Whole::Passing passing = whole.forward();
        Real dx = passing.Y - whole.target;
        for (std::size_t s = stages; s-- > 0;) {
            const auto near = [&](const Real& made, Real& at, const char* what) {
                const Real by_differences = slope(whole, at);
                EXPECT_LE((made - by_differences).norm(), 1e-6 * (1.0 + by_differences.norm()))
                    << what << " of " << s << " of " << stages;
            };
            if (s < whole.boundaries.size()) {
                Boundary<double>& boundary = whole.boundaries[s];
                Gradients<double> gradients = boundary.no_gradients();
                dx = boundary.backward(dx, passing.boundaries[s], gradients).dX;
                near(gradients.of_basis(), boundary.A, "A");
                near(gradients.dEp, boundary.p.E, "the sender's E");
                near(gradients.dEq, boundary.q.E, "the receiver's E");
            }
            Network<double>::Summed summed{Real::Zero(5, 5), Real::Zero(5, 5)};
            dx = whole.stages[s].backward(dx, passing.stages[s], summed);
            near(summed.dW1, whole.stages[s].W1, "W1");
            near(summed.dW2, whole.stages[s].W2, "W2");
        }
        const Real by_differences = slope(whole, whole.X);
        EXPECT_LE((dx - by_differences).norm(), 1e-6 * (1.0 + by_differences.norm()));
    }
}

} // namespace
} // namespace truestep::properties::mapl
