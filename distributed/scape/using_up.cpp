// A step that consumes its gradient (section 20).
#include <truestep/distributed/scalars.hpp>
#include <truestep/distributed/scape/scape.hpp>

#include "agreement.hpp"
#include "buckets_under_way.hpp"
#include "step_rooms.hpp"
#include <truestep/problem/timeline.hpp>

namespace truestep::distributed::scape {

bool Scape::can_use_up() const {
    return can_.consumed != nullptr && steps_ > 0 && parts_ == 0 && !buckets_->any() &&
           payload_is(problem::Payload::fp32);
}

void Scape::step_using_up(AlignedFloats& gradient, double learning_rate) {
    check_step(problem_.layout, halted_, gradient.size(), learning_rate);
    if (!can_use_up()) {
        join_mask(); // first, as ranks do that have given no parts
        return step(gradient, learning_rate);
    }
    const problem::Span span("step", communicator_.rank());
    try {
        attempt_using_up(gradient, learning_rate);
    } catch (...) {
        backend_->wait_idle();
        throw;
    }
}

/// Local pass and check in one, before the ranks agree: the result lies in the gradient's memory,
/// and enters the state once they have agreed.
void Scape::attempt_using_up(AlignedFloats& gradient, double learning_rate) {
    statistics_ = {};
    say_interrupted(halted_, steps_ + 1);
    const Scalars scalars = scalars_of(problem_, steps_ + 1, learning_rate);
    join_mask();
    advance_mask();
    plan_mask(density_.at(steps_ + 2));
    backend_->hint_next_selection(rooms_->coming.own());
    const Refusal refusal = [&] {
        const problem::Span span("local pass", communicator_.rank());
        return can_.consumed->local_pass_over(scalars, gradient);
    }();
    try {
        agree(refusal, learning_rate);
    } catch (...) {
        can_.consumed->roll_back();
        selected_.swap(coming_selected_);
        halted_.clear();
        throw;
    }
    can_.consumed->keep(gradient);
    finish(scalars);
}

} // namespace truestep::distributed::scape
