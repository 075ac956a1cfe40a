// How a rank reads, saves and restores its state (section 7).
#include <algorithm>
#include <bit>
#include <cmath>

#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

#include "agreement.hpp"
#include "buckets_under_way.hpp"

namespace truestep::distributed::scape {

std::vector<float> Scape::moment() {
    // In the middle of an interrupted step mask and moment may belong to different steps.
    if (!halted_.empty() &&
        backend_->packed_moment().size() != static_cast<std::size_t>(backend_->current_mask().selected()))
        throw Halted("the moment is not available: " + halted_ + "; restore a state to continue");
    std::vector<float> full(static_cast<std::size_t>(problem_.layout.size()), 0.0F);
    const Mask& mask = backend_->current_mask();
    const auto packed = backend_->packed_moment();
    std::size_t at = 0;
    for (std::size_t word = 0; word < mask.word_count(); ++word)
        for (std::uint64_t bits = mask.words()[word]; bits != 0; bits &= bits - 1)
            full[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))] = packed[at++];
    return full;
}

const Mask& Scape::coming_mask() {
    if (!halted_.empty())
        throw Halted("the coming mask is not available: " + halted_ + "; restore a state to continue");
    join_mask();
    return backend_->coming_mask();
}

int Scape::exponent() const {
    return claim_ == 0 ? RankState::least_exponent : claim_ - claim_bias;
}

RankState Scape::state() {
    if (!halted_.empty())
        throw Halted("the state is not available: " + halted_ + "; restore a state to continue");
    join_mask(); // before a rank is refused alone: all join exchanges in one order
    if (parts_ > 0 || buckets_->any())
        throw Error("cannot save within a step: a checkpoint holds no parts; take the step, or call "
                    "forget_parts()");
    const auto copy = [](std::span<const float> values) {
        return std::vector<float>(values.begin(), values.end());
    };
    return {steps_,
            copy(backend_->parameters()),
            copy(backend_->residual()),
            copy(backend_->packed_moment()),
            backend_->current_mask(),
            backend_->coming_mask(),
            exponent()};
}

void Scape::check_restorable(const RankState& state) const {
    const auto d = static_cast<std::size_t>(problem_.layout.size());
    if (state.parameters.size() != d || state.residual.size() != d ||
        state.current.size() != problem_.layout.size() || state.coming.size() != problem_.layout.size() ||
        state.packed_moment.size() != static_cast<std::size_t>(state.current.selected()))
        throw Error("restore: the state is of another model; give one with " + std::to_string(d) +
                    " parameters");
    if (payload_is(problem::Payload::e5m2) && !RankState::is_exponent(state.exponent))
        throw Error("restore: the exponent of the last payload is " + std::to_string(state.exponent) +
                    "; it is -126 to 127, or 256 less");
    check_finite(problem_.layout, "restore: parameter", state.parameters);
    check_finite(problem_.layout, "restore: residual", state.residual);
    for (const float value : state.packed_moment)
        if (!std::isfinite(value))
            throw Error("restore: a moment is " + shortest(value) + "; it must be finite");
}

void Scape::restore(const RankState& state) {
    check_restorable(state); // before any exchange, which a rank that is refused alone would start alone
    join_mask();
    forget_parts();
    backend_->restore(state.parameters, state.residual, state.packed_moment, state.current, state.coming);
    // Not from the density: a mask that was made for other ranks was partitioned differently.
    selected_ = selected_by_rank(state.current);
    coming_selected_ = selected_by_rank(state.coming);
    steps_ = state.step;
    claim_ = payload_is(problem::Payload::e5m2) ? state.exponent + claim_bias : 0;
    restored_ = digests_of_state(state);
    halted_.clear();
}

} // namespace truestep::distributed::scape
