// Computes one stage of a small network, Y = X + relu(X W1) W2, forward and backward.
#include "network.hpp"

#include <algorithm>

#include <truestep/problem/mix64.hpp>

namespace truestep::properties::mapl {

namespace {

Matrix<float> read_rows(const Floats& values, Index columns) {
    Matrix<float> made(static_cast<Index>(values.size()) / columns, columns);
    std::copy(values.begin(), values.end(), made.data());
    return made;
}

Floats rows_of(const Matrix<float>& values) {
    return {values.data(), values.data() + values.size()};
}

/// A permutation with signs: dyadic_subspace() without its blocks of four.
Matrix<float> weights(Index width, std::uint64_t seed) {
    const auto shift = static_cast<Index>(problem::mix64(seed) % static_cast<std::uint64_t>(width));
    Matrix<float> made = Matrix<float>::Zero(width, width);
    for (Index i = 0; i < width; ++i)
        made(i, (i + shift) % width) =
            problem::mix64(seed + static_cast<std::uint64_t>(i) + 1) % 2 == 0 ? 1.0F : -0.5F;
    return made;
}

class NetworkStage final : public Stage {
  public:
    NetworkStage(const Case& run, int stage)
        : run_(run),
          stage_(stage), network_{weights(run.width, static_cast<std::uint64_t>(stage) * 2 + 100),
                                  weights(run.width, static_cast<std::uint64_t>(stage) * 2 + 101)} {
        forget();
    }

    Floats forward(Index step, Index micro, const Floats& arrived) override {
        const Floats input =
            stage_ == 0 ? synthetic(run_, 1000, step, micro, tokens_of(run_, step, micro) * run_.width)
                        : arrived;
        Passing& passing = passing_[micro];
        passing.y = network_.forward(read_rows(input, run_.width), passing.passed);
        return rows_of(passing.y);
    }

    Floats backward(Index step, Index micro, const Floats& gradient) override {
        const auto found = passing_.find(micro);
        const Matrix<float> dy =
            stage_ + 1 == run_.workers
                ? minus(found->second.y, read_rows(synthetic(run_, 2000, step, micro,
                                                             tokens_of(run_, step, micro) * run_.width),
                                                   run_.width))
                : read_rows(gradient, run_.width);
        const Matrix<float> dx = network_.backward(dy, found->second.passed, summed_);
        passing_.erase(found);
        return rows_of(dx);
    }

    Floats parameter_gradient(Index) override {
        Floats all = rows_of(summed_.dW1);
        const Floats second = rows_of(summed_.dW2);
        all.insert(all.end(), second.begin(), second.end());
        forget();
        return all;
    }
    Floats parameters() override {
        Floats all = rows_of(network_.W1);
        const Floats second = rows_of(network_.W2);
        all.insert(all.end(), second.begin(), second.end());
        return all;
    }
    void set_parameters(std::span<const float> trained) override {
        const auto half = static_cast<std::ptrdiff_t>(trained.size() / 2);
        std::copy_n(trained.begin(), half, network_.W1.data());
        std::copy_n(trained.begin() + half, half, network_.W2.data());
    }

  private:
    struct Passing {
        Network<float>::ForwardValues passed;
        Matrix<float> y;
    };

    void forget() {
        summed_.dW1 = Matrix<float>::Zero(run_.width, run_.width);
        summed_.dW2 = summed_.dW1;
    }

    Case run_;
    int stage_;
    Network<float> network_;
    Network<float>::Summed summed_;
    std::map<Index, Passing> passing_;
};

} // namespace

std::unique_ptr<Stage> network_stage(const Case& run, int stage) {
    return std::make_unique<NetworkStage>(run, stage);
}

} // namespace truestep::properties::mapl
