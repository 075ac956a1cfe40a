#include <scape/distributed/adams.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <scape/distributed/kernels.hpp>
#include <scape/problem/error.hpp>

#include "agreement.hpp"
#include "scalars.hpp"

namespace scape::distributed {

AdamS::AdamS(problem::Problem problem, std::vector<problem::Range> ranges,
             std::span<const float> parameters, Communicator& communicator, Options options)
    : problem_(std::move(problem)), ranges_(std::move(ranges)), communicator_(communicator),
      options_(options), w_(parameters.begin(), parameters.end()) {
    problem::check(problem_);
    if (problem_.algorithm != problem::Algorithm::adams)
        throw Error("the problem's algorithm is scape; dense AdamS takes adams");
    if (problem_.settings.decay_order != problem::DecayOrder::first)
        throw Error("decay_order is together; the sharded implementation decays first (section 3)");
    agree_on_problem(communicator_, problem_, ranges_, problem::DensitySchedule::constant(1.0),
                     options_.reduction, w_);
    m_.assign(static_cast<std::size_t>(shard().size()), 0.0F);
}

const problem::Range& AdamS::shard() const {
    return ranges_[static_cast<std::size_t>(communicator_.rank())];
}

void AdamS::step(std::span<const float> gradient, double learning_rate) {
    check_step(problem_.layout, halted_, gradient.size(), learning_rate);
    const Index d = problem_.layout.size();
    const int ranks = communicator_.size();
    const Index own = shard().size();
    const auto bytes = [](Index count) { return static_cast<std::size_t>(count) * sizeof(float); };
    statistics_ = {};
    const Index refused = host::first_unacceptable(gradient.data(), 0, d);
    statistics_.sent[static_cast<std::size_t>(Traffic::agreement)] = agree_on_gradient(
        communicator_, problem_, refused, refused < d ? gradient[static_cast<std::size_t>(refused)] : 0.0F);

    // Whatever interrupts the step from here on, nobody goes on with half of it.
    halted_ = "step " + std::to_string(steps_ + 1) + " was interrupted";
    std::vector<std::size_t> by_owner;
    for (const problem::Range& range : ranges_)
        by_owner.push_back(bytes(range.size()));
    const Scalars scalars = scalars_of(problem_, steps_ + 1, learning_rate);
    gradient_.resize(static_cast<std::size_t>(own));
    if (options_.reduction == Reduction::ordered) {
        const std::vector<std::size_t> from_each(static_cast<std::size_t>(ranks), bytes(own));
        received_.resize(static_cast<std::size_t>(own) * static_cast<std::size_t>(ranks));
        communicator_
            .start_all_to_all(Traffic::gradient, gradient.data(), by_owner, received_.data(), from_each)
            ->wait();
        host::fold(scalars, ranks, 0, own, received_.data(), own, gradient_.data());
    } else {
        received_.resize(static_cast<std::size_t>(own));
        communicator_.start_reduce_scatter(Traffic::gradient, gradient.data(), received_.data(), by_owner)
            ->wait();
        host::fold(scalars, 1, 0, own, received_.data(), own, gradient_.data());
    }

    // Section 3 on the shard: the moment into the place of what was received, then u, then w.
    received_.resize(static_cast<std::size_t>(own));
    direction_.resize(static_cast<std::size_t>(own));
    float* w = w_.data() + shard().begin;
    for (std::size_t i = 0; i < static_cast<std::size_t>(own); ++i)
        received_[i] = element::moment(scalars, m_[i], gradient_[i]);
    host::directions(problem_.settings.bias_correction, scalars, 0, own, received_.data(), m_.data(),
                     gradient_.data(), direction_.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(own); ++i)
        w[i] = element::update(scalars, w[i] * scalars.decay, direction_[i]);
    m_.swap(received_);

    communicator_.start_all_gather(Traffic::parameters, w, w_.data(), by_owner)->wait();
    ++steps_;
    statistics_.step = steps_;
    statistics_.selected = d;
    statistics_.sent[static_cast<std::size_t>(Traffic::gradient)] = bytes(d - own);
    statistics_.sent[static_cast<std::size_t>(Traffic::parameters)] =
        bytes(own) * static_cast<std::uint64_t>(ranks - 1);
    const auto finite = [](const std::vector<float>& values) {
        return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
    };
    // Parameters are the same on all ranks; a moment is its owner's alone, but cannot turn non-finite
    // without making its parameter so.
    if (!finite(w_)) {
        halted_ = "after step " + std::to_string(steps_) + " a parameter is not finite";
        throw Halted("halted: " + halted_ + "; start again from a finite state");
    }
    halted_.clear();
}

} // namespace scape::distributed
