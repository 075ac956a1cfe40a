// The norm of section 5, and clipping by it.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "plain_rank.hpp"

namespace truestep::properties::scape::planted {

namespace {

/// Sums of blocks of 4096, in 256 lanes that are added pairwise.
std::vector<double> sums_of_blocks(const Floats& x) {
    std::vector<double> sums;
    for (std::size_t begin = 0; begin < x.size(); begin += 4096) {
        std::array<double, 256> lane{};
        const std::size_t end = std::min(x.size(), begin + 4096);
        for (std::size_t i = begin; i < end; ++i)
            lane[(i - begin) % 256] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
        for (std::size_t half = 128; half >= 1; half /= 2)
            for (std::size_t j = 0; j < half; ++j)
                lane[j] += lane[j + half];
        sums.push_back(lane[0]);
    }
    return sums;
}

} // namespace

double PlainRank::norm(const Floats& x) const {
    if (has(Bug::norm_in_single)) {
        float sum = 0.0F;
        for (const float value : x)
            sum += value * value;
        return static_cast<double>(std::sqrt(sum));
    }
    std::vector<double> sums = sums_of_blocks(x);
    const bool tree =
        problem_.settings.norm == problem::NormVersion::tree && !has(Bug::norm_one_after_another);
    while (tree && sums.size() > 1) {
        std::vector<double> next;
        for (std::size_t i = 0; i + 1 < sums.size(); i += 2)
            next.push_back(sums[i] + sums[i + 1]);
        if (sums.size() % 2 == 1) {
            if (has(Bug::odd_block_a_level_early))
                next.back() += sums.back();
            else if (!has(Bug::odd_block_dropped))
                next.push_back(sums.back());
        }
        sums = next;
    }
    double total = 0.0;
    for (const double sum : sums)
        total += sum;
    return std::sqrt(total);
}

/// s of section 4.7, by the norm of x on S_t in a range, which is all of it unless a bug is planted.
float PlainRank::clip_factor(const Floats& x, problem::Range range) const {
    if (has(Bug::clip_by_local_norm))
        range = ranges_[at(me_)];
    const bool of_dense = has(Bug::sharded_left_out_of_norm) &&
                          std::ranges::any_of(problem_.segments, &problem::Segment::always_dense);
    Floats packed;
    for (Index i = range.begin; i < range.end; ++i)
        if (test(mask_, i) && !of_dense)
            packed.push_back(x[at(i)]);
    if (has(Bug::dense_counted_by_all) || of_dense)
        for (const problem::Segment& segment : problem_.segments)
            for (Index i = segment.begin; segment.always_dense && i < segment.end; ++i)
                packed.insert(packed.end(), of_dense ? 1 : at(ranks_ - 1), x[at(i)]);
    const double of_all = norm_.empty() ? norm(packed) : norm_[asked_ - 1];
    const double ratio = problem_.settings.clip_norm / (of_all + 1e-6);
    return static_cast<float>(std::min(ratio, 1.0));
}

} // namespace truestep::properties::scape::planted
