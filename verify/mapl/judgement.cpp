#include <scape/mapl/judgement.hpp>

#include <algorithm>
#include <cmath>

#include <Eigen/SVD>

namespace scape::mapl {

namespace {

constexpr double roundoff = 0x1p-24;

} // namespace

bool is_nearest(const Quantizer<float>::Row& v, const Matrix<float>& book, Index word) {
    return Quantizer<float>::nearest(v, book) == word;
}

bool is_nearest(const Quantizer<Bounded>::Row& v, const Matrix<Bounded>& book, Index word) {
    const auto distance = [&](Index of) { return Quantizer<Bounded>::distance(v, book.row(of)); };
    const Bounded chosen = distance(word);
    for (Index other = 0; other < book.rows(); ++other)
        if (const Bounded off = distance(other);
            chosen.value() - 2.0 * chosen.error() > off.value() + 2.0 * off.error())
            return false;
    return true;
}

double spectral_norm(const Matrix<double>& of) {
    if (of.size() == 0)
        return 0.0;
    if (!of.allFinite())
        return HUGE_VAL;
    return Eigen::JacobiSVD<Eigen::MatrixXd>(Eigen::MatrixXd(of)).singularValues()(0);
}

double manifold_limit(const Settings& settings, double rate) {
    const double left = retraction_bound(rate, settings.retraction_iterations);
    return 2.0 * left + left * left + manifold_tolerance(settings.width, settings.rank);
}

Judgement next_subspace(const Settings& settings, const std::vector<float>& a, const std::vector<float>& m,
                        double rate, double behind) {
    const Matrix<double> A = rows_of<double>(a, settings.rank);
    const Matrix<double> given = rows_of<double>(m, settings.rank);
    const Matrix<double> M = settings.order == Order::project_first ? given : tangent(A, given);
    const Eigen::JacobiSVD<Eigen::MatrixXd> parts(Eigen::MatrixXd(M),
                                                  Eigen::ComputeThinU | Eigen::ComputeThinV);
    const auto& values = parts.singularValues();
    // Rounding moves M by as much as M's own entries allow, and what projection cancels by as much as m's.
    const double unsure = 16.0 * roundoff * static_cast<double>(settings.rank) *
                          std::sqrt(static_cast<double>(settings.width)) * std::max(given.norm(), behind);
    const double scale = 1.01 * M.norm() + 1e-7;
    Matrix<double> d = Matrix<double>::Zero(M.rows(), M.cols());
    double off = 0.0;
    for (Index i = 0; i < values.size(); ++i) {
        if (values(i) > 4.0 * unsure) {
            d += parts.matrixU().col(i) * parts.matrixV().col(i).transpose();
            off = std::max(off, polar_bound(values(i) / scale, settings.direction_iterations) +
                                    4.0 * unsure / values(i));
        } else if (values(i) > 0.0 || unsure > 0.0) {
            off = 2.0; // what the rounding of it points to, nobody knows
        }
    }
    // The retraction passes on what it is given: its derivative at the manifold is a projection, and nearby
    // not much more.
    return {retract<double>(A - rate * d, settings.retraction_iterations),
            2.0 * rate * std::min(off, 2.0) * std::sqrt(static_cast<double>(settings.rank)) +
                manifold_tolerance(settings.width, settings.rank)};
}

} // namespace scape::mapl
