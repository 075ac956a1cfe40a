// Section 4.4: the mean of c over the ranks, on S_t, through the owners of the ranges.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "plain_rank.hpp"

namespace truestep::properties::scape::planted {

std::vector<std::size_t> PlainRank::selected_by_range(const Bits& mask) const {
    std::vector<std::size_t> counts;
    for (const problem::Range& range : ranges_) {
        std::size_t count = 0;
        for (Index i = range.begin; i < range.end; ++i)
            if (test(mask, i))
                ++count;
        counts.push_back(count);
    }
    return counts;
}

/// c on the mask, range by range.
Floats PlainRank::packed_payload(const Bits& mask) const {
    const auto counts = selected_by_range(mask);
    const auto offsets = has(Bug::offsets_of_previous_mask) ? selected_by_range(previous_mask_) : counts;
    Floats payload(std::reduce(counts.begin(), counts.end()), 0.0F);
    std::size_t begin = 0;
    for (std::size_t rank = 0; rank < ranges_.size(); ++rank) {
        std::size_t place = begin;
        for (Index i = ranges_[rank].begin; i < ranges_[rank].end; ++i) {
            if (!test(mask, i))
                continue;
            const bool sent = !has(Bug::payload_from_own_shard) || rank == at(me_);
            if (place < payload.size()) // always, except with offsets of another mask
                payload[place] = sent ? travelled(c_[at(i)]) : 0.0F;
            ++place;
        }
        begin += offsets[rank];
    }
    if (has(Bug::another_order_of_names) && me_ > 0 && me_ == ranks_ - 1) {
        auto first = payload.begin();
        for (const std::size_t count : counts) {
            std::reverse(first, first + static_cast<std::ptrdiff_t>(count));
            first += static_cast<std::ptrdiff_t>(count);
        }
    }
    if (has(Bug::zeros_to_nan)) {
        float greatest = 0.0F;
        for (const float value : payload)
            greatest = std::max(greatest, std::abs(value));
        for (float& value : payload)
            value = value / greatest * greatest;
    }
    return payload;
}

/// The mean of value j, of which each rank has sent one: received[rank * values + j].
float PlainRank::mean_of(const Floats& received, std::size_t values, std::size_t j) const {
    const auto P = static_cast<float>(ranks_);
    const auto ranks = static_cast<std::size_t>(ranks_);
    if (has(Bug::one_rank_for_all))
        return received[j];
    if (has(Bug::alone_is_zero) && ranks == 1)
        return 0.0F;
    if (has(Bug::alone_is_doubled) && ranks == 1)
        return received[j] + received[j];
    constexpr std::size_t bucket = 16;
    if (has(Bug::beyond_last_bucket) && values > bucket && j >= values / bucket * bucket)
        return received[at(me_) * values + j];
    float sum = received[j];
    for (std::size_t rank = 1; rank < ranks; ++rank) {
        sum = sum + received[rank * values + j];
        if (has(Bug::fold_in_bf16) && format() == problem::Payload::bf16)
            sum = in_bf16(sum);
        if (has(Bug::fold_in_bf16) && scaled())
            sum = in_e5m2(sum, E_);
    }
    if (has(Bug::reverse_rank_order)) {
        sum = received[(ranks - 1) * values + j];
        for (std::size_t rank = ranks - 1; rank > 0; --rank)
            sum = sum + received[(rank - 1) * values + j];
    }
    if (has(Bug::double_accumulation)) {
        double exact = 0.0;
        for (std::size_t rank = 0; rank < ranks; ++rank)
            exact += static_cast<double>(received[rank * values + j]);
        sum = static_cast<float>(exact);
    }
    return has(Bug::sum_in_place_of_mean) ? sum : quotient(sum, P);
}

void PlainRank::exchange() {
    M_.assign(at(d_), 0.0F);
    lost_ = own_means_ = M_;
    if (cut_.empty())
        write_means(mask_, exchanged(mask_));
    else
        exchange_buckets();
}

/// The values of this rank's range, from each rank.
Floats PlainRank::to_the_owners(const Floats& payload, const std::vector<std::size_t>& counts) {
    return sent_as_payload(payload, counts, std::vector<std::size_t>(at(ranks_), counts[at(me_)]));
}

/// Sends each rank its values and receives its values for this rank, as payloads.
Floats PlainRank::sent_as_payload(const Floats& payload, const std::vector<std::size_t>& to,
                                  const std::vector<std::size_t>& from) {
    const std::size_t bytes = value_bytes(problem_.settings.payload);
    const std::size_t all = std::reduce(from.begin(), from.end());
    const auto sizes_of = [bytes](const std::vector<std::size_t>& counts) {
        std::vector<std::size_t> sizes;
        sizes.reserve(counts.size());
        for (const std::size_t count : counts)
            sizes.push_back(count * bytes);
        return sizes;
    };
    std::vector<char> sent = narrow(payload, bytes);
    std::vector<char> come(all * bytes);
    const auto sizes = sizes_of(to);
    const auto from_each = sizes_of(from);
    const auto on_its_way = communicator_.start_all_to_all(distributed::Traffic::payload, sent.data(),
                                                           sizes, come.data(), from_each);
    if (has(Bug::payload_reused))
        std::ranges::fill(sent, '\0');
    on_its_way->wait();
    return wide(come, bytes);
}

/// The means on a mask, packed.
Floats PlainRank::exchanged(const Bits& mask) {
    const auto counts = selected_by_range(mask);
    const std::size_t mine = counts[at(me_)];
    std::vector<std::size_t> to_owners;
    to_owners.reserve(counts.size());
    for (const std::size_t count : counts)
        to_owners.push_back(count * bytes_of_a_mean());

    const Floats payload = packed_payload(mask);
    if (!groups_.empty())
        return exchanged_in_groups(mask, payload, counts);
    const Floats received = to_the_owners(payload, counts);
    Floats means(mine, 0.0F);
    for (std::size_t j = 0; j < mine; ++j)
        means[j] = mean_of(received, mine, j);
    constexpr std::size_t bucket = 4;
    if (has(Bug::last_bucket_in_all))
        for (std::size_t j = 0; j + bucket < mine / bucket * bucket; ++j)
            means[j] = means[mine / bucket * bucket - bucket + j % bucket];
    round_own_means(mask, means);
    const std::vector<char> sent = narrow(means, bytes_of_a_mean());
    std::vector<char> come(payload.size() * bytes_of_a_mean());
    communicator_.start_all_gather(distributed::Traffic::moment, sent.data(), come.data(), to_owners)
        ->wait();
    return wide(come, bytes_of_a_mean());
}

void PlainRank::write_means(const Bits& mask, const Floats& packed) {
    std::size_t place = 0;
    for (std::size_t rank = 0; rank < ranges_.size(); ++rank)
        for (Index i = ranges_[rank].begin; i < ranges_[rank].end; ++i)
            if (test(mask, i) && !packed.empty()) {
                // Always within it, unless a bug is planted.
                float M = packed[(has(Bug::index_in_16_bits) ? place % 65'536 : place) % packed.size()];
                ++place;
                if (rounds_mean(problem_.settings.payload) && has(Bug::mean_rounded_by_all))
                    M = rounded_mean(i, M);
                if (rounds_mean(problem_.settings.payload) && has(Bug::owner_keeps_its_mean) &&
                    rank == at(me_))
                    M = own_means_[at(i)];
                if (has(Bug::mean_taken_twice))
                    M = quotient(M, static_cast<float>(ranks_));
                M_[at(i)] = kept(M);
            }
}

} // namespace truestep::properties::scape::planted
