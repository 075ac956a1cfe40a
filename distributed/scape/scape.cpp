// Takes one rank of SCAPE through a step: check, local pass, exchange, fold and update.
#include <truestep/distributed/scape/scape.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

#include <truestep/distributed/scalars.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/timeline.hpp>

#include "agreement.hpp"
#include "buckets_under_way.hpp"
#include "group_fold.hpp"
#include "step_rooms.hpp"

namespace truestep::distributed::scape {

namespace {

std::unique_ptr<LevelsCommunicator> levels_of(const problem::Problem& problem, Communicator& communicator) {
    problem::check(problem);
    if (!problem::has_levels(problem.settings.groups))
        return nullptr;
    return std::make_unique<LevelsCommunicator>(communicator, problem.settings.groups);
}

/// Section 21: the rounding error of a mean goes to the residual of its segment's owner, but its
/// range's rank has it. So the two must be the same.
void check_owners_of_means(const problem::Problem& problem, const std::vector<problem::Range>& ranges) {
    for (const problem::Segment& segment : problem.segments) {
        const problem::Range& own = ranges.at(static_cast<std::size_t>(segment.owner));
        if (segment.begin < own.begin || segment.end > own.end)
            throw Error(
                "payload is '" + std::string(name(problem.settings.payload)) +
                "'; the segment that begins at " + std::to_string(segment.begin) +
                " is outside its owner's range, so rounding losses cannot be kept: set payload to " +
                std::string(name(format_of(problem.settings.payload))));
    }
}

} // namespace

Scape::Scape(problem::Problem problem, std::vector<problem::Range> ranges, problem::DensitySchedule density,
             std::unique_ptr<Backend> backend, Communicator& communicator, Options options)
    : problem_(std::move(problem)), ranges_(std::move(ranges)), density_(std::move(density)),
      backend_(std::move(backend)), can_(backend_->capabilities()),
      levels_(levels_of(problem_, communicator)),
      communicator_(levels_ ? static_cast<Communicator&>(*levels_) : communicator), options_(options),
      rooms_(std::make_unique<Rooms>()) {
    if (problem_.settings.decay_order != problem::DecayOrder::first)
        throw Error("decay_order is together; the sharded implementation decays first (section 3)");
    check_one_param_group(problem_.layout);
    if (!payload_is(problem::Payload::fp32) &&
        (options_.reduction == Reduction::native || can_.rounding == nullptr))
        throw Error(
            "payload is '" + std::string(name(problem_.settings.payload)) + "'; " +
            (options_.reduction == Reduction::native
                 ? "it is folded by its owners, and a reduction by the library adds fp32 alone: set "
                   "reduction to ordered, or payload to fp32"
                 : "this backend takes no payload but fp32, set it to that"));
    if (options_.largest_piece < 0)
        throw Error("largest_piece is " + std::to_string(options_.largest_piece) +
                    "; it must not be negative, and 0 leaves the choice to SCAPE");
    if (rounds_mean(problem_.settings.payload))
        check_owners_of_means(problem_, ranges_);
    if (levels_ && (options_.reduction == Reduction::native || can_.groups == nullptr))
        throw Error("groups is " + problem::groups_text(problem_.settings.groups) + "; " +
                    (options_.reduction == Reduction::native
                         ? "a reduction by the library adds in an order of its own: set reduction to "
                           "ordered, or leave groups out"
                         : "this backend adds on one level, leave groups out"));
    // Before this agreement ranks may have different groups.
    agree_on_problem(communicator, problem_, ranges_, density_, options_, backend_->parameters());
    if (levels_)
        groups_ = std::make_unique<GroupFold>(levels_->levels(), communicator_, *backend_,
                                              value_bytes(problem_.settings.payload));
    buckets_ = std::make_unique<BucketsUnderWay>(problem_, ranges_, communicator_, rooms_->agreement,
                                                 *backend_, options_.reduction, groups_.get());
}

// Always waits for the exchange, because its buffers are about to be destroyed.
Scape::~Scape() {
    try {
        if (mask_in_flight_)
            mask_in_flight_->settle();
    } catch (...) { // the ranks have been informed already
    }
}

void Scape::step(std::span<const float> gradient, double learning_rate) {
    check_step(problem_.layout, halted_, gradient.size(), learning_rate);
    if (parts_ == 0)
        return take(gradient.data(), learning_rate);
    can_.parts->accumulate(gradient.data(), false);
    take(can_.parts->accumulated(), learning_rate);
}

void Scape::step(double learning_rate) {
    expect_parts();
    const auto d = static_cast<std::size_t>(problem_.layout.size());
    check_step(problem_.layout, halted_, d, learning_rate);
    if (parts_ == 0 || buckets_->any()) // the others may wait, so they have to hear of it
        refuse_step(parts_ == 0 ? "a step without a gradient, and nothing has been accumulated; give one"
                                : "a step without a gradient, after buckets of one; give it");
    take(can_.parts->accumulated(), learning_rate);
}

void Scape::accumulate(std::span<const float> gradient) {
    expect_parts();
    check_step(problem_.layout, halted_, gradient.size(), 0.0);
    if (buckets_->any())
        throw Error("a part of the gradient comes after buckets of the last one; give all before them");
    can_.parts->accumulate(gradient.data(), parts_ == 0);
    ++parts_;
}

void Scape::bucket(std::span<const std::size_t> tensors, std::span<const float> gradient) {
    expect_parts();
    check_step(problem_.layout, halted_, gradient.size(), 0.0);
    if (!buckets_->any())
        statistics_ = {};
    const Index t = steps_ + 1;
    try {
        const AgreementResult agreed = buckets_->agree(t, tensors, restored_, claim_);
        sent(Traffic::agreement, agreed.bytes_sent);
        // S_1 is made from the whole c_1; and with a single rank the mean is its c.
        if (t == 1 || communicator_.size() == 1)
            return;
        join_mask();
        scale_payload(agreed.exponent);
        buckets_->start(scalars_of(problem_, t, 0.0), gradient.data(), parts_ > 0, statistics_.sent);
    } catch (...) {
        forget_parts();
        throw;
    }
}

bool Scape::in_buckets() const {
    return halted_.empty() && buckets_->any();
}

void Scape::forget_parts() {
    drop_parts();
    backend_->wait_idle();
}

void Scape::drop_parts() {
    parts_ = 0;
    buckets_->forget();
}

void Scape::expect_parts() const {
    if (can_.parts == nullptr)
        throw Error("this backend takes no parts of a gradient; give a step its whole gradient at once");
}

/// 1. Check. Nothing changes before all ranks' gradients have passed.
void Scape::agree(const float* gradient, double learning_rate) {
    const problem::Span span("agree", communicator_.rank());
    try {
        Refusal refusal = backend_->first_refused(gradient);
        const Index d = problem_.layout.size();
        if (payload_is(problem::Payload::bf16))
            join_mask(); // a rank that refuses waits, too: all ranks join exchanges in one order
        // Payload rounding (section 21) refuses a c that bf16 cannot hold. In the first step e is 0,
        // and no accepted gradient makes c that large.
        if (payload_is(problem::Payload::bf16) && refusal.index == d && steps_ > 0 &&
            buckets_->missing().empty()) {
            const auto of_payload =
                can_.rounding->first_overflow(scalars_of(problem_, steps_ + 1, 0.0), gradient);
            if (of_payload.index < d)
                refusal = {d + 1 + of_payload.index, of_payload.value};
        }
        agree(refusal, learning_rate);
    } catch (...) {
        forget_parts();
        throw;
    }
}

void Scape::agree(Refusal refusal, double learning_rate) {
    const AgreementResult agreed =
        agree_on_gradient(communicator_, rooms_->agreement, problem_, refusal.index, refusal.value,
                          {steps_ + 1, 0, buckets_->missing(), restored_, claim_, learning_rate});
    sent(Traffic::agreement, agreed.bytes_sent);
    if (steps_ > 0)
        scale_payload(agreed.exponent);
    restored_ = {};
}

void Scape::refuse_step(const std::string& fault) {
    if (!halted_.empty()) // then the others have halted, or this rank alone has and cannot take part
        return;
    try {
        if (payload_is(problem::Payload::bf16))
            join_mask(); // in the order of agree()
        agree_on_gradient(communicator_, rooms_->agreement, problem_, problem_.layout.size(), 0.0F,
                          {steps_ + 1, 0, fault, restored_, claim_});
    } catch (...) {
        forget_parts();
        throw;
    }
}

void Scape::take(const float* gradient, double learning_rate) {
    const problem::Span span("step", communicator_.rank());
    try {
        attempt(gradient, learning_rate);
    } catch (...) {
        backend_->wait_idle();
        throw;
    }
}

void Scape::attempt(const float* gradient, double learning_rate) {
    if (!buckets_->any())
        statistics_ = {};
    agree(gradient, learning_rate);

    // If anything interrupts the step from here on, no caller continues with half of it.
    say_interrupted(halted_, steps_ + 1);
    const Scalars scalars = scalars_of(problem_, steps_ + 1, learning_rate);
    if (steps_ == 0) {
        bootstrap(scalars, gradient);
    } else {
        join_mask();
        advance_mask();
        plan_mask(density_.at(steps_ + 2));
        backend_->hint_next_selection(rooms_->coming.own());
        // 2. Local. The same pass packs the payload of 4 and writes the residual of 6.
        const problem::Span span("local pass", communicator_.rank());
        backend_->local_pass(scalars, gradient);
    }
    finish(scalars);
}

/// The rest of a step, from the payload and the residual on.
void Scape::finish(const Scalars& scalars) {
    const Index t = steps_ + 1;
    statistics_.step = t;
    statistics_.selected = std::reduce(selected_.begin(), selected_.end());

    // 3. Next mask. It travels while the rest is done, and beyond, until the next step.
    start_mask();
    round_payload(t);

    // 4. Exchange; with buckets, the rest of theirs.
    if (buckets_->started())
        buckets_->finish(scalars, statistics_.sent);
    else
        exchange(scalars);
    drop_parts();

    // 5. Reconstruction. 7. Clip. 8. Update.
    const problem::Span span("update", communicator_.rank());
    const problem::HyperParameters& settings = problem_.settings;
    backend_->reconstruct(scalars, settings.clip_norm);
    const Backend::Verdict verdict = backend_->update(settings.bias_correction, scalars);
    statistics_.kept = verdict.kept;
    statistics_.gradient_norm = verdict.norm;
    statistics_.clip_factor = verdict.clip_factor;
    mask_in_flight_->relay();
    steps_ = t;
    if (!verdict.finite) {
        // The same on all ranks, because M and w are.
        halted_ = "after step " + std::to_string(steps_) + " a parameter or the moment is not finite";
        throw Halted("halted: " + halted_ + "; restore a finite state to continue");
    }
    halted_.clear();
}

void Scape::scale_payload(int exponent) {
    if (!payload_is(problem::Payload::e5m2))
        return;
    scale_ = exponent;
    can_.rounding->scale_payload(exponent);
}

/// Section 21. The ranks agreed on the scale of e5m2 with the gradient, from the payloads of the step
/// before. The first step has none before it, so the ranks agree on one from its own payloads.
void Scape::round_payload(Index t) {
    if (payload_is(problem::Payload::fp32))
        return;
    if (payload_is(problem::Payload::e5m2)) {
        constexpr int least = RankState::least_exponent + exponent_bias;
        const int own = can_.rounding->payload_exponent();
        claim_ = own > 0 ? own + had_some : t == 1 ? least : scale_;
        if (t == 1) {
            const AgreementResult agreed = agree_on_exponent(communicator_, rooms_->agreement, claim_);
            sent(Traffic::agreement, agreed.bytes_sent);
            scale_payload(agreed.exponent);
        }
        statistics_.exponent = scale_ - exponent_bias;
    }
    can_.rounding->round_payload();
}

/// Makes S_1 from c_1, at once.
void Scape::bootstrap(const Scalars& scalars, const float* gradient) {
    backend_->local_pass(scalars, gradient);
    plan_mask(density_.at(1));
    start_mask();
    join_mask();
    advance_mask();
    plan_mask(density_.at(2));
    backend_->extract_payload();
}

void Scape::advance_mask() {
    backend_->advance_mask();
    selected_.swap(coming_selected_);
}

void Scape::sent(Traffic traffic, std::uint64_t bytes_to_others) {
    statistics_.sent[static_cast<std::size_t>(traffic)] += bytes_to_others;
}

} // namespace truestep::distributed::scape
