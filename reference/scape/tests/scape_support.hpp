// Holds the small problem, its run and the fixture that the tests of SCAPE's reference share.
#pragma once

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/reference/scape/scape.hpp>

#include "support.hpp"

namespace truestep::reference::scape {

inline constexpr int workers = 3;
inline constexpr Index size = 40;
inline constexpr double learning_rate = 3e-3;
inline constexpr Index steps = 6;

inline problem::DensitySchedule falling() {
    return problem::DensitySchedule::geometric(1.0, 0.2, 3);
}

template <class T>
class ScapeTest : public ::testing::Test {
  protected:
    static Scape<T> make(const problem::HyperParameters& settings = {},
                         const problem::DensitySchedule& density = falling()) {
        return {small_problem(settings), density, small_parameters<T>()};
    }

    /// Two coordinates in one segment of rank 0, k = 1, under settings that make most results exact.
    static Scape<T> make_pair(int ranks, Vector<T> parameters = Vector<T>::Zero(2)) {
        auto problem =
            problem::make_problem(problem::Algorithm::scape, ranks, problem::Layout({{"pair", 2}}),
                                  problem::PartitionRule::by_tensor, dyadic());
        problem.segments[0].owner = 0;
        return {std::move(problem), problem::DensitySchedule::constant(0.5), std::move(parameters)};
    }

    static problem::HyperParameters dyadic() {
        problem::HyperParameters settings;
        settings.beta1 = 0.5;
        settings.beta2 = 0.75;
        settings.weight_decay = 0.0;
        settings.bias_correction = problem::BiasCorrection::none;
        return settings;
    }

    /// A step: its number, the state before, its inputs and its results.
    struct Taken {
        Index t;
        ScapeState<T> before;
        PerRank<T> g;
        ScapeStep<T> made;
        ScapeState<T> after;
    };

    static std::vector<Taken> run(Scape<T> optimizer) {
        std::vector<Taken> taken;
        for (Index t = 1; t <= steps; ++t) {
            const ScapeState<T> before = optimizer.state;
            PerRank<T> g = random_gradients<T>(static_cast<int>(before.e.size()), before.w.size(), t);
            ScapeStep<T> made = optimizer.step(g, learning_rate);
            taken.push_back({t, before, std::move(g), std::move(made), optimizer.state});
        }
        return taken;
    }
};
TYPED_TEST_SUITE(ScapeTest, Scalars);

} // namespace truestep::reference::scape
