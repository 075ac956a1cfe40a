#include <truestep/verify/dense/judgement.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include <truestep/verify/polynomial_iteration.hpp>

namespace truestep::verify::dense {

Judgement::Distance Judgement::greatest(const Matrix<double>& difference, double factor,
                                        double more) const {
    const bool wide = difference.rows() < difference.cols();
    const Eigen::MatrixXd off = wide ? Eigen::MatrixXd(difference.transpose() * directions)
                                     : Eigen::MatrixXd(difference * directions);
    Distance worst{-1.0, 1.0};
    for (Eigen::Index j = 0; j < off.cols(); ++j) {
        const double length = off.col(j).norm();
        const double limit = factor * limits(j) + more;
        if (!(length * worst.limit <= worst.off * limit))
            worst = {length, limit};
    }
    return worst;
}

Judgement judge(const Group& group, const Matrix<double>& U, double off, bool in_bf16) {
    const bool wide = U.rows() < U.cols();
    const Eigen::MatrixXd tall = wide ? Eigen::MatrixXd(U.transpose()) : Eigen::MatrixXd(U);
    const double scale = first_scale(group, tall.norm());
    std::vector<verify::QuinticCoefficients> steps;
    for (int t = 0; t < group.iterations; ++t)
        steps.push_back(quintic(group, t));
    const bool bf16 = in_bf16 || group.iteration == Iteration::bf16;
    const double roundings = 0x1p-24 * std::sqrt(static_cast<double>(tall.rows()));
    const verify::IterationRounding rounding{2.0 * roundings + (bf16 ? 0x1p-10 : 0.0),
                                             0x1p-20 + (bf16 ? 0x1.8p-9 : 0.0), off / scale};
    verify::IteratedMatrix made = verify::iterate(tall / scale, steps, rounding);
    Judgement result;
    result.O = wide ? Matrix<double>(made.result.transpose()) : Matrix<double>(made.result);
    // Whatever was rounded, neither of the two is longer than this.
    const double longest = 2.0 * made.singular.abs().maxCoeff();
    result.limits = 2.0 * made.off.min(longest);
    result.proves = (result.limits < made.singular.abs()).any();
    result.directions = std::move(made.directions);
    return result;
}

} // namespace truestep::verify::dense
