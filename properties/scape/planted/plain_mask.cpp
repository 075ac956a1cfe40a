// Section 4.3: who selects what, and how the bits are sent.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include <truestep/distributed/scape/scape.hpp>

#include "plain_rank.hpp"

namespace truestep::properties::scape::planted {

/// The vector that is scored: c.
Floats PlainRank::scored(const Scalars& s, std::span<const float> g) const {
    Floats result = c_;
    for (std::size_t i = 0; i < result.size(); ++i) {
        if (has(Bug::score_from_gradient))
            result[i] = g[i];
        if (has(Bug::score_without_residual))
            result[i] = (s.b1 * m_[i]) + (s.a1 * g[i]);
    }
    return result;
}

/// The bits of the magnitude as an unsigned number.
std::uint32_t PlainRank::score(float c) const {
    constexpr std::uint32_t sign = 0x8000'0000U;
    if (has(Bug::score_without_magnitude)) {
        // The order of signed values; both zeros are equal.
        const auto bits = std::bit_cast<std::uint32_t>(c + 0.0F);
        return (bits & sign) != 0 ? ~bits : bits | sign;
    }
    return std::bit_cast<std::uint32_t>(c) & ~sign;
}

Index PlainRank::selected_count(Index n, bool always_dense, double density) const {
    if (always_dense && !has(Bug::always_dense_ignored))
        return n;
    const double product = density * static_cast<double>(n);
    auto k = static_cast<Index>(has(Bug::k_rounded_up) ? std::ceil(product) : std::floor(product));
    if (!has(Bug::at_least_one_forgotten))
        k = std::max<Index>(1, k);
    return std::min(n, k);
}

void PlainRank::select_top(std::vector<Index> candidates, const Floats& c, Index k, Bits& chosen) const {
    std::ranges::nth_element(candidates, candidates.begin() + k, [&](Index a, Index b) {
        const std::uint32_t score_a = score(c[at(a)]);
        const std::uint32_t score_b = score(c[at(b)]);
        if (score_a != score_b)
            return score_a > score_b;
        return has(Bug::ties_to_higher_index) ? a > b : a < b;
    });
    for (Index place = 0; place < k; ++place)
        set(chosen, candidates[at(place)]);
}

/// Selects the top k of the owner's segments by this rank's c.
void PlainRank::select(int owner, const Floats& c, double density, Bits& chosen) const {
    std::vector<Index> whole;
    for (const problem::Segment& segment : problem_.segments) {
        if (segment.owner != owner)
            continue;
        std::vector<Index> candidates(at(segment.size()));
        std::iota(candidates.begin(), candidates.end(), segment.begin);
        if (has(Bug::k_over_whole_model) && !segment.always_dense) {
            whole.insert(whole.end(), candidates.begin(), candidates.end());
            continue;
        }
        const Index k = selected_count(segment.size(), segment.always_dense, density);
        select_top(std::move(candidates), c, k, chosen);
    }
    if (!whole.empty()) {
        const Index k = selected_count(static_cast<Index>(whole.size()), false, density);
        select_top(std::move(whole), c, k, chosen);
    }
}

Bits PlainRank::full_mask() const {
    Bits full(bytes_for(d_), 0xFF);
    if (d_ % 8 != 0 && !has(Bug::garbage_beyond_end))
        full.back() = static_cast<std::uint8_t>((1U << static_cast<unsigned>(d_ % 8)) - 1U);
    return full;
}

/// Makes S_t from c_t, at once.
void PlainRank::bootstrap(double density, const Floats& c) {
    if (density >= 1.0) {
        mask_ = full_mask();
    } else {
        start_mask(density, c);
        join_mask();
        mask_ = coming_;
    }
    previous_mask_ = mask_;
    waiting_ = mask_;
}

/// Starts sending each rank's bits of the segments that it owns, one after the other. join_mask() waits for
/// them.
void PlainRank::start_mask(double density, const Floats& c) {
    std::vector<Index> owned(at(ranks_), 0);
    for (const problem::Segment& segment : problem_.segments)
        owned[at(segment.owner)] += segment.size();
    gather_sizes_.clear();
    for (const Index count : owned)
        gather_sizes_.push_back(bytes_for(count));

    Bits chosen(bytes_for(d_), 0);
    select(me_, c, density, chosen);
    if (has(Bug::own_mask_kept)) {
        own_choice_.assign(bytes_for(d_), 0);
        for (int owner = 0; owner < ranks_; ++owner)
            select(owner, c, density, own_choice_);
    }

    outgoing_.assign(gather_sizes_[at(me_)], 0);
    Index place = 0;
    for (const problem::Segment& segment : problem_.segments) {
        if (segment.owner != me_)
            continue;
        for (Index i = segment.begin; i < segment.end; ++i, ++place)
            if (test(chosen, i))
                set(outgoing_, place);
    }
    incoming_.assign(std::reduce(gather_sizes_.begin(), gather_sizes_.end()), 0);
    density_in_flight_ = density;
    density_in_use_ = density_.at(steps_ + 1);
    gather_ = communicator_.start_all_gather(distributed::Traffic::mask, outgoing_.data(), incoming_.data(),
                                             gather_sizes_);
}

void PlainRank::join_mask() {
    if (!gather_)
        return;
    const auto gather = std::move(gather_);
    gather->wait();

    // The place of each rank's next bit.
    std::vector<Index> place(at(ranks_), 0);
    for (std::size_t rank = 1; rank < place.size(); ++rank)
        place[rank] = place[rank - 1] + static_cast<Index>(gather_sizes_[rank - 1]) * 8;
    coming_.assign(bytes_for(d_), 0);
    for (const problem::Segment& segment : problem_.segments)
        for (Index i = segment.begin; i < segment.end; ++i)
            if (test(incoming_, place[at(segment.owner)]++))
                set(coming_, i);

    if (has(Bug::decoder_of_another_density) && density_in_use_ >= 1.0)
        coming_ = full_mask();
    if (has(Bug::own_mask_kept) && me_ > 0 && me_ == ranks_ - 1)
        coming_ = own_choice_;
    // A full segment is written in whole bytes, including the last one.
    if (has(Bug::garbage_beyond_end) && d_ % 8 != 0)
        if (const problem::Segment& last = problem_.segments.back();
            selected_count(last.size(), last.always_dense, density_in_flight_) == last.size())
            coming_.back() =
                static_cast<std::uint8_t>(coming_.back() | (0xFFU << static_cast<unsigned>(d_ % 8)));
}

/// The joined mask that the next step uses.
const Bits& PlainRank::next_mask() const {
    return has(Bug::mask_two_steps_late) ? waiting_ : coming_;
}

void PlainRank::advance_mask() {
    previous_mask_ = mask_;
    mask_ = next_mask();
    if (has(Bug::mask_only_shrinks))
        for (std::size_t byte = 0; byte < mask_.size(); ++byte)
            mask_[byte] = static_cast<std::uint8_t>(mask_[byte] & previous_mask_[byte]);
    waiting_ = coming_;
}

std::vector<std::uint8_t> PlainRank::coming() {
    if (!halted_.empty())
        throw distributed::scape::Halted("the coming mask is not available: " + halted_ +
                                         "; restore a state to continue");
    join_mask();
    return next_mask();
}

} // namespace truestep::properties::scape::planted
