// One step of both sides of a boundary, for recording and verifying.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <truestep/verify/mapl/judgement.hpp>
#include <truestep/verify/mapl/traces.hpp>

namespace truestep::verify::mapl {

/// The sources of a step's inputs, and the destinations of its results. Those of a micro-batch have
/// its number, from 1 on; the others have 0.
template <class T>
struct StepEnds {
    std::function<Matrix<T>(const char* name, Index micro)> input;
    std::function<Ids(Index micro)> ids;
    std::function<void(const char* name, Index micro, const Matrix<T>& values)> result;
    /// Replaces Z by its codewords as they travel. Empty: Z is not quantized.
    std::function<Matrix<T>(const Matrix<T>& Z, Index micro)> coded;
};

/// Sends all micro-batches forward, then back.
template <class T>
[[nodiscard]] Gradients<T> pass_through(const Config& config, const Boundary<T>& boundary,
                                        const StepEnds<T>& ends) {
    std::vector<Forward<T>> went;
    for (Index micro = 1; micro <= config.micro; ++micro) {
        const Matrix<T> X = ends.input("X", micro);
        Forward<T>& made = went.emplace_back();
        made.ids = ends.ids(micro);
        if (ends.coded) {
            made.Q = boundary.less_anchor(X, made.ids);
            made.Z = ends.coded(times(made.Q, boundary.A), micro);
            made.Xhat = boundary.decompressed(made.Z, made.ids);
        } else {
            made = boundary.forward(X, made.ids);
            ends.result("Z", micro, made.Z);
        }
        ends.result("Xhat", micro, made.Xhat);
    }
    Gradients<T> gradients = boundary.no_gradients();
    for (Index i = 1; i <= config.micro; ++i) {
        const Index micro = config.ascending ? i : config.micro + 1 - i;
        const Backward<T> back =
            boundary.backward(ends.input("G", micro), went[static_cast<std::size_t>(micro - 1)], gradients);
        ends.result("dZ", micro, back.dZ);
        ends.result("dX", micro, back.dX);
    }
    return gradients;
}

/// The gradients of the sender's and of the receiver's table.
template <class T>
[[nodiscard]] std::pair<Matrix<T>, Matrix<T>> of_tables(const Config& config,
                                                        const Gradients<T>& gradients) {
    if (config.settings.anchors == Anchors::shared)
        return {gradients.of_anchors(), gradients.of_anchors()};
    return {gradients.dEp, gradients.dEq};
}

template <class T>
void hand_on(const Config& config, const Gradients<T>& gradients, const StepEnds<T>& ends) {
    ends.result("gradient_sender", 0, gradients.sender);
    ends.result("gradient_receiver", 0, gradients.receiver);
    ends.result("gradient", 0, gradients.of_basis());
    if (!config.trains_anchors())
        return;
    const auto [sender, receiver] = of_tables(config, gradients);
    ends.result("dE_sender", 0, sender);
    ends.result("dE_receiver", 0, receiver);
}

/// A step of SPEL that changes nothing if its sums overflow (section 22).
[[nodiscard]] inline SpelStep<float> spel_if_finite(const Settings& settings, const Matrix<float>& A,
                                                    const Matrix<float>& m, const Matrix<float>& gradient,
                                                    double rate) {
    SpelStep<float> made = spel(settings, A, m, gradient, rate);
    return made.m.allFinite() && made.A.allFinite() ? made : SpelStep<float>{m, {}, A};
}

} // namespace truestep::verify::mapl
