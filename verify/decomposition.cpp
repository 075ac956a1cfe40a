// Calls Eigen's solvers.
#include <truestep/verify/decomposition.hpp>

#include <Eigen/Eigenvalues>
#include <Eigen/SVD>

namespace truestep::verify {

SingularParts singular_parts(const Eigen::MatrixXd& of) {
    const Eigen::JacobiSVD<Eigen::MatrixXd> parts(of, Eigen::ComputeThinU | Eigen::ComputeThinV);
    return {parts.matrixU(), parts.singularValues(), parts.matrixV()};
}

EigenParts eigen_parts(const Eigen::MatrixXd& of) {
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> parts(of);
    return {parts.eigenvalues(), parts.eigenvectors()};
}

} // namespace truestep::verify
