// Takes one rank's steps of sharded AdamS, the dense base line of SCAPE.
#include <truestep/distributed/scape/adams.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/scalars.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/tunable.hpp>
#include <truestep/problem/value_digest.hpp>

#include "agreement.hpp"

namespace truestep::distributed::scape {

AdamS::AdamS(problem::Problem problem, std::vector<problem::Range> ranges,
             std::span<const float> parameters, Communicator& communicator, Options options)
    : problem_(std::move(problem)), ranges_(std::move(ranges)), communicator_(communicator),
      options_(options), w_(parameters.begin(), parameters.end()) {
    problem::check(problem_);
    if (problem_.algorithm != problem::Algorithm::adams)
        throw Error("the problem's algorithm is scape; dense AdamS takes adams");
    if (problem_.settings.decay_order != problem::DecayOrder::first)
        throw Error("decay_order is together; the sharded implementation decays first (section 3)");
    check_one_param_group(problem_.layout);
    agree_on_problem(communicator_, problem_, ranges_, problem::DensitySchedule::constant(1.0), options_,
                     w_);
    m_.assign(static_cast<std::size_t>(shard().size()), 0.0F);
}

const problem::Range& AdamS::shard() const {
    return ranges_[static_cast<std::size_t>(communicator_.rank())];
}

void AdamS::restore(Index steps, std::span<const float> parameters, std::span<const float> shard_moment) {
    if (steps < 0 || parameters.size() != w_.size() || shard_moment.size() != m_.size())
        throw Error("the state of step " + std::to_string(steps) + " has " +
                    std::to_string(parameters.size()) + " parameters and a moment of " +
                    std::to_string(shard_moment.size()) + "; this rank has " + std::to_string(w_.size()) +
                    " and " + std::to_string(m_.size()));
    std::ranges::copy(parameters, w_.begin());
    std::ranges::copy(shard_moment, m_.begin());
    steps_ = steps;
    restored_ = {problem::digest_of(parameters), static_cast<std::uint64_t>(steps) + 1};
    halted_.clear();
}

void AdamS::step(std::span<const float> gradient, double learning_rate) {
    check_step(problem_.layout, halted_, gradient.size(), learning_rate);
    const Index d = problem_.layout.size();
    const int ranks = communicator_.size();
    const Index own = shard().size();
    const auto bytes = [](Index count) { return static_cast<std::size_t>(count) * sizeof(float); };
    statistics_ = {};
    const Index refused = host::first_unacceptable(gradient.data(), 0, d);
    AgreementRoom room;
    statistics_.sent[static_cast<std::size_t>(Traffic::agreement)] =
        agree_on_gradient(communicator_, room, problem_, refused,
                          refused < d ? gradient[static_cast<std::size_t>(refused)] : 0.0F,
                          {.step = steps_ + 1, .restored = restored_, .learning_rate = learning_rate})
            .bytes_sent;
    restored_ = {};

    // If anything interrupts the step from here on, no caller continues with half of it.
    halted_ = "step " + std::to_string(steps_ + 1) + " was interrupted";
    std::vector<std::size_t> by_owner;
    for (const problem::Range& range : ranges_)
        by_owner.push_back(bytes(range.size()));
    const Scalars scalars = scalars_of(problem_, steps_ + 1, learning_rate);
    const int parts = exchange(gradient, by_owner);

    // Section 3 on the shard. The mean exists only in the cache, block after block.
    constexpr Index block = problem::tunable<Index>("dense_block");
    std::array<float, block> mean; // NOLINT: written before it is read
    const float* const sums = ranks == 1 ? gradient.data() : received_.data();
    float* const w = w_.data() + shard().begin;
    bool finite = true;
    for (Index begin = 0; begin < own; begin += block) {
        const Index count = std::min(block, own - begin);
        const float* g = sums + begin; // with one rank, the gradient itself is the mean
        if (ranks > 1) {
            host::fold(scalars, parts, 0, count, g, own, mean.data());
            g = mean.data();
        }
        if (!host::dense(problem_.settings.bias_correction, scalars, count, g, m_.data() + begin,
                         w + begin))
            finite = false;
    }

    communicator_.start_all_gather(Traffic::parameters, w, w_.data(), by_owner)->wait();
    // Parameters are the same on all ranks. A moment belongs to its owner, but cannot turn
    // non-finite without making its parameter so. The own ones have been checked.
    const Index end = shard().end;
    finite = finite && host::finite(w_.data(), shard().begin) && host::finite(w_.data() + end, d - end);
    ++steps_;
    statistics_.step = steps_;
    statistics_.selected = d;
    statistics_.sent[static_cast<std::size_t>(Traffic::gradient)] = bytes(d - own);
    statistics_.sent[static_cast<std::size_t>(Traffic::parameters)] =
        bytes(own) * static_cast<std::uint64_t>(ranks - 1);
    if (!finite) {
        halted_ = "after step " + std::to_string(steps_) + " a parameter is not finite";
        throw Halted("halted: " + halted_ + "; start again from a finite state");
    }
    halted_.clear();
}

/// Receives the ranks' values for this rank in received_; returns the number of parts. A single
/// rank has all of them.
int AdamS::exchange(std::span<const float> gradient, const std::vector<std::size_t>& by_owner) {
    const int ranks = communicator_.size();
    if (ranks == 1)
        return 1;
    const auto own = static_cast<std::size_t>(shard().size());
    const bool ordered = options_.reduction == Reduction::ordered;
    received_.resize(own * static_cast<std::size_t>(ordered ? ranks : 1));
    if (!ordered) {
        communicator_.start_reduce_scatter(Traffic::gradient, gradient.data(), received_.data(), by_owner)
            ->wait();
        return 1;
    }
    const std::vector<std::size_t> from_each(static_cast<std::size_t>(ranks), own * sizeof(float));
    communicator_
        .start_all_to_all(Traffic::gradient, gradient.data(), by_owner, received_.data(), from_each)
        ->wait();
    return ranks;
}

} // namespace truestep::distributed::scape
