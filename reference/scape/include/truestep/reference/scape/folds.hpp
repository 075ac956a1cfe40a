#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include <truestep/problem/problem.hpp>
#include <truestep/reference/vector.hpp>

// The only sums whose order can show. Sections 5 and 32 fix each order. Eigen's own sums and norms
// depend on the width of the machine's registers, and are never used.

namespace truestep::reference::scape {

/// (((x_0 + x_1) + x_2) + ...) / P on the coordinates S, in ascending rank order.
template <class T>
Vector<T> mean_in_rank_order(const PerRank<T>& x, const Coordinates& S) {
    Vector<T> sum = x[0](S);
    for (std::size_t rank = 1; rank < x.size(); ++rank)
        sum = sum + x[rank](S);
    return sum / T(static_cast<double>(x.size()));
}

/// The same over all coordinates.
template <class T>
Vector<T> mean_in_rank_order(const PerRank<T>& x) {
    Vector<T> sum = x[0];
    for (std::size_t rank = 1; rank < x.size(); ++rank)
        sum = sum + x[rank];
    return sum / T(static_cast<double>(x.size()));
}

/// Section 32: in each group the ranks' x in ascending order, then the groups' sums in ascending order,
/// divided by P. No groups, one group, and groups of one are the mean in rank order.
template <class T>
Vector<T> mean_in_groups(const PerRank<T>& x, const problem::Groups& groups) {
    if (groups.empty())
        return mean_in_rank_order(x);
    PerRank<T> sums;
    std::size_t rank = 0;
    for (const int size : groups) {
        Vector<T> sum = x[rank];
        for (int more = 1; more < size; ++more)
            sum = sum + x[rank + static_cast<std::size_t>(more)];
        rank += static_cast<std::size_t>(size);
        sums.push_back(sum);
    }
    Vector<T> sum = sums[0];
    for (std::size_t group = 1; group < sums.size(); ++group)
        sum = sum + sums[group];
    return sum / T(static_cast<double>(x.size()));
}

/// Version 1 of the norm adds one sum after another.
template <class Real>
Real sum_ascending(const std::vector<Real>& S) {
    Real total(0.0);
    for (const Real& sum : S)
        total = total + sum;
    return total;
}

/// Version 2 makes sum i of the next level from S[2i] + S[2i+1]; an odd last one moves up
/// unchanged.
template <class Real>
Real sum_in_tree(std::vector<Real> S) {
    while (S.size() > 1) {
        std::vector<Real> next;
        for (std::size_t i = 0; i + 1 < S.size(); i += 2)
            next.push_back(S[i] + S[i + 1]);
        if (S.size() % 2 == 1)
            next.push_back(S.back());
        S = next;
    }
    return S.empty() ? Real(0.0) : S.front();
}

/// The 2-norm, in an order that plain code, a SIMD loop and a GPU can all follow: blocks of 4096
/// values; in a block 256 lanes, lane j sums the squares of the elements i = j mod 256 in ascending
/// i; lanes are added pairwise, lane j += lane j+128, then +64, ... +1; the block sums are added as
/// the version says. Real is double, or a scalar that carries more than a double. The values may
/// come in parts, whose borders do not change the result.
template <class Real>
class NormOfParts {
  public:
    NormOfParts() { lane_.fill(Real(0.0)); }

    template <class T>
    void add(const Vector<T>& x) {
        for (Index i = 0; i < x.size(); ++i) {
            const auto value = static_cast<Real>(x[i]);
            Real& sum = lane_[in_block_ % lanes];
            sum = sum + value * value;
            if (++in_block_ == block)
                close_block();
        }
    }

    /// Lets the next value begin a block, wherever this one ends.
    void end_block() {
        if (in_block_ > 0)
            close_block();
    }

    /// The norm of all values added so far. Nothing may be added afterwards.
    [[nodiscard]] Real norm(problem::NormVersion version) {
        using std::sqrt;
        end_block();
        return sqrt(version == problem::NormVersion::tree ? sum_in_tree(sums_) : sum_ascending(sums_));
    }

  private:
    static constexpr std::size_t block = 4096;
    static constexpr std::size_t lanes = 256;

    void close_block() {
        for (std::size_t half = lanes / 2; half > 0; half /= 2)
            for (std::size_t j = 0; j < half; ++j)
                lane_[j] = lane_[j] + lane_[j + half];
        sums_.push_back(lane_[0]);
        lane_.fill(Real(0.0));
        in_block_ = 0;
    }

    std::array<Real, lanes> lane_;
    std::size_t in_block_ = 0;
    std::vector<Real> sums_; ///< of the blocks so far
};

/// The norm of one complete vector.
template <class Real, class T>
Real norm_in_blocks(const Vector<T>& x, problem::NormVersion version) {
    NormOfParts<Real> norm;
    norm.add(x);
    return norm.norm(version);
}

} // namespace truestep::reference::scape
