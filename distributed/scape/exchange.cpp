// The exchanges of a step: the coming mask (section 4.3), and the values on the current one
// (section 4.4).
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/tunable.hpp>

#include "group_fold.hpp"
#include "pieces_under_way.hpp"
#include "step_rooms.hpp"
#include <truestep/problem/timeline.hpp>

namespace truestep::distributed::scape {

/// Not while a mask is in flight, which needs its plan on arrival.
void Scape::plan_mask(double density) {
    rooms_->coming.make(problem_, density, communicator_.rank(),
                        communicator_.size() > 1 || can_.codes_for_itself);
}

/// Starts the mask that has been planned.
void Scape::start_mask() {
    const MaskPlan& coming = rooms_->coming;
    const std::size_t before = coming.bytes_before(communicator_.rank());
    std::uint8_t* code = backend_->mask_code(coming.bytes());
    {
        const problem::Span span("select", communicator_.rank());
        backend_->select(coming.own(), before);
    }
    mask_in_flight_ = communicator_.start_all_gather(Traffic::mask, code + before, code, coming.sizes());
    sent(Traffic::mask, communicator_.sent_by_gather(coming.sizes()));
    coming_selected_ = coming.selected();
}

void Scape::join_mask() {
    if (!mask_in_flight_)
        return;
    const auto flight = std::move(mask_in_flight_);
    try {
        flight->wait();
        const problem::Span span("decode mask", communicator_.rank());
        backend_->decode_mask(rooms_->coming.all());
    } catch (...) { // the backend still has the last step's mask in its place
        if (halted_.empty())
            halted_ = "the mask of step " + std::to_string(steps_ + 1) + " could not be received";
        throw;
    }
}

std::vector<Index> Scape::selected_by_rank(const Mask& mask) const {
    std::vector<Index> result;
    for (const problem::Range& range : ranges_)
        result.push_back(mask.offset(range.end) - mask.offset(range.begin));
    return result;
}

void Scape::exchange(const Scalars& scalars) {
    const problem::Span span("exchange", communicator_.rank());
    const int ranks = communicator_.size();
    const int me = communicator_.rank();
    std::vector<std::size_t>& by_owner = rooms_->by_owner;
    std::vector<std::size_t>& sent_to = rooms_->sent_to;
    by_owner.clear();
    sent_to.clear();
    for (const Index selected : selected_) {
        by_owner.push_back(static_cast<std::size_t>(selected) * sizeof(float));
        sent_to.push_back(static_cast<std::size_t>(selected) * value_bytes(problem_.settings.payload));
    }
    const Index own = selected_[static_cast<std::size_t>(me)];
    const Index at = std::accumulate(selected_.begin(), selected_.begin() + me, Index{0});

    // With a single rank the mean is c itself, which is already in M's place.
    if (groups_) {
        groups_->fold(scalars, selected_, values_at_once(), options_.largest_piece);
    } else if (ranks > 1 && options_.reduction == Reduction::ordered) {
        fold(scalars, at);
    } else if (ranks > 1) {
        communicator_
            .start_reduce_scatter(Traffic::payload, backend_->payload(),
                                  static_cast<float*>(backend_->received(own)), by_owner)
            ->wait();
        backend_->divide(scalars, at, own);
    }
    sent(Traffic::payload,
         groups_ ? groups_->bytes_sent(selected_)
                 : std::reduce(sent_to.begin(), sent_to.end()) - sent_to[static_cast<std::size_t>(me)]);

    if (rounds_mean(problem_.settings.payload)) {
        std::byte* means = can_.rounding->round_means(at, own);
        const auto before = static_cast<std::size_t>(at) * mean_bytes(problem_.settings.payload);
        communicator_.start_all_gather(Traffic::moment, means + before, means, sent_to)->wait();
        can_.rounding->take_means(scalars, ranges_[static_cast<std::size_t>(me)]);
        sent(Traffic::moment, communicator_.sent_by_gather(sent_to));
        return;
    }
    float* M = backend_->moment();
    communicator_.start_all_gather(Traffic::moment, M + at, M, by_owner)->wait();
    sent(Traffic::moment, communicator_.sent_by_gather(by_owner));
}

/// Folds the ranks' values piece by piece, because room for all of them would be a third vector on
/// the mask; the next piece is on its way meanwhile. Few values are one piece.
void Scape::fold(const Scalars& scalars, Index at) {
    struct Values {
        Index begin = 0;
        Index count = 0;
    };
    const int ranks = communicator_.size();
    const Index own = selected_[static_cast<std::size_t>(communicator_.rank())];
    const Index largest = *std::max_element(selected_.begin(), selected_.end());
    const Index length = communicator_.sends_pieces() ? std::min(largest, largest_piece()) : largest;
    const auto bytes = [this](Index count) {
        return static_cast<std::size_t>(count) * value_bytes(problem_.settings.payload);
    };
    in_pieces<Values>(
        largest, length, can_.rooms,
        [&](const Values& piece) {
            void* received = backend_->received(std::min(own, length) * ranks); // the same for all of them
            return communicator_.start_all_to_owners(Traffic::payload, backend_->sent(), rooms_->sent_to,
                                                     {bytes(piece.begin), bytes(length)}, received);
        },
        [&](const Values& piece) {
            backend_->fold(scalars, ranks, at + piece.begin,
                           std::clamp<Index>(own - piece.begin, 0, length));
        });
}

/// The number of values of each rank in a piece.
Index Scape::largest_piece() const {
    if (options_.largest_piece > 0)
        return options_.largest_piece;
    constexpr Index worth_a_message = problem::tunable<Index>("worth_a_message");
    return std::max(worth_a_message, values_at_once() / communicator_.size());
}

/// The number of values of all ranks, such that two pieces take a 128th of the memory of w.
Index Scape::values_at_once() const {
    return problem_.layout.size() / 256;
}

} // namespace truestep::distributed::scape
