#pragma once

#include <truestep/problem/problem.hpp>

#include "algorithms/update.hpp"

namespace truestep::gpu::scape {

/// The launches that compute the norm of ghat, and the clip factor from it.
template <class Machine>
class NormLaunches {
  public:
    /// The machine has to outlive this.
    NormLaunches(Machine& machine, problem::NormVersion version) : machine_(machine), version_(version) {}

    /// M and m are packed on S_t.
    void run(const Scalars& scalars, Index selected, const float* M, const float* m, double clip_norm,
             Results* results) {
        Index blocks = (selected + SquareSums::norm_block - 1) / SquareSums::norm_block;
        machine_.resize(sums_, blocks);
        machine_.template run<SquareSums>(blocks, {scalars, selected, M, m, sums_.data()});
        for (; version_ == problem::NormVersion::tree && blocks > 1; sums_.swap(level_)) {
            const Index groups = (blocks + TreeSums::group - 1) / TreeSums::group;
            machine_.resize(level_, groups);
            machine_.template run<TreeSums>(groups, {blocks, sums_.data(), level_.data()});
            blocks = groups;
        }
        machine_.template run<Clip>(1, {blocks, sums_.data(), clip_norm, results});
    }

  private:
    Machine& machine_;
    problem::NormVersion version_;
    typename Machine::template Vector<double> sums_;
    typename Machine::template Vector<double> level_; ///< of the norm's tree, above sums_
};

} // namespace truestep::gpu::scape
