// A small network to be split into the stages of a pipeline.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "scenario.hpp"

namespace truestep::properties::mapl {

/// One stage of the pipeline: Y = X + relu(X W1) W2, and its backward pass by hand.
template <class T>
struct Network {
    Matrix<T> W1; ///< D x D
    Matrix<T> W2;

    struct ForwardValues {
        Matrix<T> X;
        Matrix<T> H; ///< X W1
    };
    struct Summed {
        Matrix<T> dW1;
        Matrix<T> dW2;
    };

    static Matrix<T> relu(const Matrix<T>& H) {
        return H.unaryExpr([](const T& h) { return h > T(0) ? h : T(0); });
    }

    Matrix<T> forward(const Matrix<T>& X, ForwardValues& passed) const {
        passed = {X, times(X, W1)};
        return plus(X, times(relu(passed.H), W2));
    }

    Matrix<T> backward(const Matrix<T>& dY, const ForwardValues& passed, Summed& summed) const {
        const Matrix<T> dR = times(dY, transposed(W2));
        const Matrix<T> dH =
            dR.binaryExpr(passed.H, [](const T& d, const T& h) { return h > T(0) ? d : T(0); });
        summed.dW2 = plus(summed.dW2, times(transposed(relu(passed.H)), dY));
        summed.dW1 = plus(summed.dW1, times(transposed(passed.X), dH));
        return plus(dY, times(dH, transposed(W1)));
    }
};

/// Such a stage for a case. Its weights map each feature to one other, so that sums stay exact. The first
/// stage has made-up input, the last one the loss |Y - target|^2 / 2.
[[nodiscard]] std::unique_ptr<Stage> network_stage(const Case& run, int stage);

} // namespace truestep::properties::mapl
