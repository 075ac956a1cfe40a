// Singular values and eigenvalues. Eigen's solvers take a compiler five seconds each, so they are compiled
// once.
#pragma once

#include <Eigen/Core>

namespace truestep::verify {

/// The matrix is u * values * v^T, and the values descend.
struct SingularParts {
    Eigen::MatrixXd u;
    Eigen::VectorXd values;
    Eigen::MatrixXd v;
};
[[nodiscard]] SingularParts singular_parts(const Eigen::MatrixXd& of);

/// The matrix is symmetric, and the values ascend.
struct EigenParts {
    Eigen::VectorXd values;
    Eigen::MatrixXd vectors;
};
[[nodiscard]] EigenParts eigen_parts(const Eigen::MatrixXd& of);

} // namespace truestep::verify
