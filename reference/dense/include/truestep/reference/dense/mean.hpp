// How the micro-batches' gradients come together (section 35): the mean in two orders, and the norm
// by which it is clipped.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <truestep/problem/dense/settings.hpp>
#include <truestep/reference/scape/folds.hpp>
#include <truestep/reference/vector.hpp>

namespace truestep::reference::dense {

using namespace problem::dense;

/// The gradients of a step: of each rank one of each of its micro-batches.
template <class T>
using Gradients = std::vector<PerRank<T>>;

/// Level by level, sum i of the next level is that of 2i and 2i+1; an odd last one moves up as it
/// is.
template <class T>
[[nodiscard]] Vector<T> sum_in_tree(PerRank<T> level) {
    while (level.size() > 1) {
        PerRank<T> next;
        for (std::size_t i = 0; i + 1 < level.size(); i += 2)
            next.push_back(level[i] + level[i + 1]);
        if (level.size() % 2 == 1)
            next.push_back(std::move(level.back()));
        level = std::move(next);
    }
    return std::move(level.front());
}

template <class T>
[[nodiscard]] Vector<T> sum_ascending(const PerRank<T>& all) {
    Vector<T> sum = all.front();
    for (std::size_t i = 1; i < all.size(); ++i)
        sum = sum + all[i];
    return sum;
}

/// M of section 35, from all ranks' gradients.
template <class T>
[[nodiscard]] Vector<T> mean_of(const Problem& problem, const Gradients<T>& gradients) {
    const T divisor = T(static_cast<double>(divisor_of(problem)));
    PerRank<T> parts;
    for (const PerRank<T>& of_rank : gradients)
        if (problem.order == Order::rank)
            parts.push_back(sum_ascending(of_rank));
        else
            parts.insert(parts.end(), of_rank.begin(), of_rank.end());
    const Vector<T> sum =
        problem.order == Order::rank ? sum_ascending(parts) : sum_in_tree(std::move(parts));
    return sum / divisor;
}

/// The global norm of section 35: in double, its blocks begin anew at each tensor. A scalar that
/// carries a bound specializes this.
template <class T>
struct GlobalNorm {
    using Real = double;

    [[nodiscard]] static Real of(const Vector<T>& mean, const problem::Layout& layout) {
        scape::NormOfParts<Real> norm;
        for (std::size_t tensor = 0; tensor < layout.tensors().size(); ++tensor) {
            norm.add(
                Vector<T>(mean.segment(layout.begin(tensor), layout.end(tensor) - layout.begin(tensor))));
            norm.end_block();
        }
        return norm.norm(problem::NormVersion::tree);
    }
};

/// The factor s, made in double (or what carries more than a double) and rounded once.
template <class T>
[[nodiscard]] T clip_factor(double clip_norm, const typename GlobalNorm<T>::Real& norm) {
    using std::min;
    using Real = typename GlobalNorm<T>::Real;
    const Real ratio = Real(clip_norm) / (norm + Real(1e-6));
    return T(min(ratio, Real(1.0)));
}

} // namespace truestep::reference::dense
