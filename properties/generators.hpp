#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include <rapidcheck.h>

#include <scape/problem/density.hpp>
#include <scape/problem/problem.hpp>
#include <scape/reference/scape.hpp>
#include <scape/verify/data.hpp>

// The one generator of problems. A case is a few small numbers; its parameters and gradients follow from
// the seed, so that shrinking moves only what a reader would change by hand.

namespace scape::properties {

using problem::Index;
using reference::Coordinates;
using reference::PerRank;
using reference::ScapeState;
using reference::ScapeStep;
using reference::Vector;

struct Betas {
    double first = 0.5;
    double second = 0.75;
};

/// A problem and the run of it.
struct Case {
    std::vector<problem::Tensor> tensors;
    int workers = 1;
    problem::PartitionRule partition = problem::PartitionRule::by_shard;
    bool owners_in_turn = false; ///< segment i belongs to rank i mod P, as in one version of the artifact
    double density = 1.0;        ///< where the schedule ends
    Index warm_up = 0;           ///< steps in which it falls from 1
    Betas betas;
    problem::BiasCorrection bias_correction = problem::BiasCorrection::adam;
    double weight_decay = 0.1;
    double clip_norm = 0.0;
    verify::DataClass data = verify::DataClass::dyadic;
    std::uint64_t seed = 0;
    Index steps = 1;

    [[nodiscard]] Index size() const;
};

std::ostream& operator<<(std::ostream& stream, const Case& run);

/// One of the values, shrinking towards the first: RapidCheck's own element() does not shrink, and its
/// inRange() would seldom reach the last values.
template <class Value>
rc::Gen<Value> one_of(std::vector<Value> values) {
    const std::size_t count = values.size();
    return rc::gen::map(rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::size_t>(0, count)),
                        [values = std::move(values)](std::size_t place) { return values[place]; });
}

/// Anything goes.
rc::Gen<Case> any_case();

/// No clipping.
rc::Gen<Case> unclipped_case();

/// No clipping, and data and betas of so few bits that every sum over ranks, every mean and every moment is
/// exact in fp32. Gradients are whole multiples of the number of workers: their mean is then exact for any
/// number.
rc::Gen<Case> exact_case();

[[nodiscard]] problem::Problem problem_of(const Case& run);
[[nodiscard]] problem::DensitySchedule schedule_of(const Case& run);
[[nodiscard]] Vector<float> parameters_of(const Case& run);
[[nodiscard]] PerRank<float> gradients_of(const Case& run, Index step);
[[nodiscard]] reference::Scape<float> optimizer_of(const Case& run);

/// A power of two, so that lr*u is exact.
constexpr double learning_rate = 0x1p-8;

/// Takes the steps after the one `optimizer` is at, up to and with `last`.
void take_steps(reference::Scape<float>& optimizer, const Case& run, Index last);

/// The coordinates of [0, size) that S leaves out.
[[nodiscard]] Coordinates complement(const Coordinates& S, Index size);

/// Tags a case with what decides whether it is a trivial one.
void classify(const Case& run);

} // namespace scape::properties
