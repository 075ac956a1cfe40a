// Takes SPEL's step of the subspace A, and retracts it to the manifold.
#include <truestep/distributed/mapl/spel_step.hpp>

#include <array>
#include <cmath>
#include <utility>

#include <truestep/distributed/mapl/products.hpp>

namespace truestep::distributed::mapl {

namespace {

/// Uses several sums at once, which do not wait for each other.
double sum_of_squares(const Floats& values) {
    std::array<double, 16> sums{};
    const std::size_t whole = values.size() - values.size() % sums.size();
    for (std::size_t i = 0; i < whole; i += sums.size())
        for (std::size_t lane = 0; lane < sums.size(); ++lane) {
            const auto value = static_cast<double>(values[i + lane]);
            sums[lane] += value * value;
        }
    double sum = 0.0;
    for (const double lane : sums)
        sum += lane;
    for (std::size_t i = whole; i < values.size(); ++i)
        sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    return sum;
}

/// A D x r matrix and its operations. The polynomials use r x r matrices: X (c0 I + S (c1 I + c2
/// S)), S = X^T X, takes two products with D and one without, where the plain form takes three with
/// D.
class TallMatrix {
  public:
    explicit TallMatrix(const Settings& settings)
        : width_(static_cast<std::size_t>(settings.width)), rank_(static_cast<std::size_t>(settings.rank)),
          square_(rank_ * rank_), inner_(rank_ * rank_), made_(width_ * rank_) {}

    void iterate(const OddPolynomial& c, double margin, Floats& x) {
        const auto [c0, c1, c2] = scaled_polynomial(c, margin);
        multiply({.rows = rank_, .columns = rank_, .inner = width_, .first_transposed = true}, x.data(),
                 x.data(), square_.data());
        multiply({.rows = rank_, .columns = rank_, .inner = rank_, .factor = c2}, square_.data(),
                 square_.data(), inner_.data());
        for (std::size_t i = 0; i < inner_.size(); ++i)
            inner_[i] += c1 * square_[i];
        for (std::size_t i = 0; i < rank_; ++i)
            inner_[i * rank_ + i] += c0;
        multiply({.rows = width_, .columns = rank_, .inner = rank_}, x.data(), inner_.data(), made_.data());
        x.swap(made_);
    }

    void polar(Floats& x, int iterations) {
        const double scale = 1.0 / (1.01 * std::sqrt(sum_of_squares(x)) + 1e-7);
        for (float& value : x)
            value = static_cast<float>(static_cast<double>(value) * scale);
        for (int t = 0; t < iterations; ++t)
            if (static_cast<std::size_t>(t) < polar_polynomials.size())
                iterate(polar_polynomials[static_cast<std::size_t>(t)], 1.01, x);
            else
                iterate(endless_polynomial, 1.0, x);
    }

    void retract(Floats& x, int iterations) {
        for (int t = 0; t < iterations; ++t)
            iterate(endless_polynomial, 1.0, x);
    }

    /// x - A sym(A^T x).
    void project(const Floats& a, Floats& x) {
        multiply({.rows = rank_, .columns = rank_, .inner = width_, .first_transposed = true}, a.data(),
                 x.data(), square_.data());
        for (std::size_t i = 0; i < rank_; ++i)
            for (std::size_t j = 0; j < rank_; ++j)
                inner_[i * rank_ + j] = 0.5F * (square_[i * rank_ + j] + square_[j * rank_ + i]);
        multiply({.rows = width_, .columns = rank_, .inner = rank_, .factor = -1.0F, .keep = true},
                 a.data(), inner_.data(), x.data());
    }

  private:
    std::size_t width_;
    std::size_t rank_;
    Floats square_;
    Floats inner_;
    Floats made_;
};

} // namespace

void polar_in_place(const Settings& settings, Floats& x) {
    TallMatrix(settings).polar(x, settings.direction_iterations);
}

void retract_in_place(const Settings& settings, Floats& x) {
    TallMatrix(settings).retract(x, settings.retraction_iterations);
}

bool spel_step(const Settings& settings, std::span<const float> gradient, double rate, Floats& a,
               Floats& m) {
    const bool first = settings.order == Order::project_first;
    TallMatrix tall(settings);
    Floats moment(gradient.begin(), gradient.end());
    if (first)
        tall.project(a, moment);
    const auto beta = static_cast<float>(settings.beta);
    const auto rest = static_cast<float>(1.0 - settings.beta);
    for (std::size_t i = 0; i < moment.size(); ++i)
        moment[i] = beta * m[i] + rest * moment[i];
    Floats x = moment;
    if (!first)
        tall.project(a, x);
    tall.polar(x, settings.direction_iterations);
    const auto by = static_cast<float>(rate);
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = a[i] - by * x[i];
    tall.retract(x, settings.retraction_iterations);
    if (!all_finite(moment) || !all_finite(x))
        return false;
    m = std::move(moment);
    a = std::move(x);
    return true;
}

} // namespace truestep::distributed::mapl
