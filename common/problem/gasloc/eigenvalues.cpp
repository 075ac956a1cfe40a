// Eigenvalues by Jacobi rotations: slower than a library, but short and exact enough.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <truestep/problem/gasloc/stability.hpp>

namespace truestep::problem::gasloc {

namespace {

/// A symmetric matrix that stores all its elements.
class Matrix {
  public:
    explicit Matrix(int size) : size_(static_cast<std::size_t>(size)), elements_(size_ * size_) {}

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] double at(std::size_t i, std::size_t j) const { return elements_[i * size_ + j]; }
    void set(std::size_t i, std::size_t j, double value) {
        elements_[i * size_ + j] = value;
        elements_[j * size_ + i] = value;
    }

  private:
    std::size_t size_;
    std::vector<double> elements_;
};

Matrix lambda_of(const Graph& graph, int workers) {
    Matrix lambda(workers);
    for (const Edge& edge : graph) {
        const auto a = static_cast<std::size_t>(edge.a);
        const auto b = static_cast<std::size_t>(edge.b);
        lambda.set(a, a, lambda.at(a, a) + edge.weight / 2);
        lambda.set(b, b, lambda.at(b, b) + edge.weight / 2);
        lambda.set(a, b, -edge.weight / 2);
    }
    return lambda;
}

/// Turns the plane of i and j so that their element off the diagonal becomes 0.
void rotate(Matrix& matrix, std::size_t i, std::size_t j) {
    const double ii = matrix.at(i, i);
    const double jj = matrix.at(j, j);
    const double ij = matrix.at(i, j);
    const double cotangent = (jj - ii) / (2 * ij); // of twice the angle; the lesser of two angles is taken
    const double tangent =
        std::copysign(1.0, cotangent) / (std::abs(cotangent) + std::hypot(1.0, cotangent));
    const double cosine = 1 / std::hypot(1.0, tangent);
    const double sine = tangent * cosine;
    for (std::size_t k = 0; k < matrix.size(); ++k) {
        const double ik = matrix.at(i, k);
        const double jk = matrix.at(j, k);
        matrix.set(i, k, cosine * ik - sine * jk);
        matrix.set(j, k, sine * ik + cosine * jk);
    }
    matrix.set(i, i, ii - tangent * ij);
    matrix.set(j, j, jj + tangent * ij);
    matrix.set(i, j, 0.0);
}

/// Rotates away every element that is not negligible. Returns whether there was one.
bool sweep(Matrix& matrix, double negligible) {
    bool rotated = false;
    for (std::size_t i = 0; i < matrix.size(); ++i)
        for (std::size_t j = i + 1; j < matrix.size(); ++j)
            if (std::abs(matrix.at(i, j)) > negligible) {
                rotate(matrix, i, j);
                rotated = true;
            }
    return rotated;
}

} // namespace

std::vector<double> eigenvalues(const Graph& graph, int workers) {
    Matrix matrix = lambda_of(graph, workers);
    double greatest = 0.0;
    for (std::size_t i = 0; i < matrix.size(); ++i)
        greatest = std::max(greatest, matrix.at(i, i));
    // Convergence is quadratic: some ten sweeps do. The limit guards against unforeseen input.
    for (int sweeps = 0; sweeps < 100 && sweep(matrix, 1e-16 * greatest); ++sweeps) {
    }
    std::vector<double> values;
    for (std::size_t i = 0; i < matrix.size(); ++i)
        values.push_back(matrix.at(i, i));
    std::sort(values.begin(), values.end());
    return values;
}

} // namespace truestep::problem::gasloc
