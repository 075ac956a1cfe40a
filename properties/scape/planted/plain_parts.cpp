// Section 20: a gradient in micro-batches, and an exchange in buckets.
#include <cmath>

#include <truestep/distributed/scape/scape.hpp>

#include "plain_rank.hpp"

namespace truestep::properties::scape::planted {

void PlainRank::accumulate(std::span<const float> gradient) {
    parts_.emplace_back(gradient.begin(), gradient.end());
}

/// The values come again with the step.
void PlainRank::bucket(std::span<const std::size_t> tensors, std::span<const float> /*gradient*/) {
    cut_.emplace_back(tensors.begin(), tensors.end());
}

/// The sum ((g_1 + g_2) + ...) + the last one.
std::span<const float> PlainRank::whole(std::span<const float> last) {
    if (parts_.empty())
        return last;
    parts_.emplace_back(last.begin(), last.end());
    std::vector<Floats> parts = parts_;
    if (has(Bug::only_last_part))
        parts = {parts_.back()};
    if (has(Bug::all_but_last_part))
        parts.pop_back();
    if (has(Bug::parts_last_to_first))
        parts.assign(parts_.rbegin(), parts_.rend());
    sum_ = parts.front();
    for (std::size_t part = 1; part < parts.size(); ++part)
        for (std::size_t i = 0; i < sum_.size(); ++i) {
            const float before =
                has(Bug::accumulated_divided) ? quotient(sum_[i], static_cast<float>(ranks_)) : sum_[i];
            sum_[i] = before + parts[part][i];
        }
    for (float& value : sum_)
        if (has(Bug::parts_averaged))
            value = quotient(value, static_cast<float>(parts.size()));
    return sum_;
}

/// A refused step forgets its parts and buckets.
void PlainRank::check_whole(std::span<const float> g) {
    std::vector<Floats> parts = std::move(parts_);
    parts_.clear();
    Floats looked_at(g.begin(), g.end());
    if (has(Bug::sum_not_checked) && !parts.empty())
        for (std::size_t i = 0; i < looked_at.size(); ++i) {
            looked_at[i] = 0.0F;
            for (const Floats& part : parts)
                if (!(std::abs(part[i]) <= 0x1p56F))
                    looked_at[i] = part[i];
        }
    try {
        refuse_on_all_ranks(looked_at);
    } catch (...) {
        cut_.clear();
        if (has(Bug::refused_parts_stay))
            parts_ = std::move(parts);
        throw;
    }
}

/// Only for a bug: a residual stays with the number of its bucket when buckets change.
void PlainRank::residual_follows_buckets() {
    if (cut_.empty())
        return;
    if (first_cut_.empty())
        first_cut_ = cut_;
    const auto coordinates = [&](const std::vector<std::vector<std::size_t>>& cut) {
        std::vector<Index> all;
        for (const auto& tensors : cut)
            for (const std::size_t tensor : tensors)
                for (Index i = problem_.layout.begin(tensor); i < problem_.layout.end(tensor); ++i)
                    all.push_back(i);
        return all;
    };
    if (has(Bug::residual_by_number_of_bucket) && !last_cut_.empty()) {
        const auto was = coordinates(last_cut_);
        const auto is = coordinates(cut_);
        const Floats e = e_;
        for (std::size_t place = 0; place < is.size(); ++place)
            e_[at(is[place])] = e[at(was[place])];
    }
    last_cut_ = cut_;
}

/// S_t in these tensors.
Bits PlainRank::selected_in(const std::vector<std::size_t>& tensors) const {
    Bits bits(bytes_for(d_), 0);
    for (const std::size_t tensor : tensors)
        for (Index i = problem_.layout.begin(tensor); i < problem_.layout.end(tensor); ++i)
            if (test(mask_, i))
                set(bits, i);
    return bits;
}

void PlainRank::exchange_buckets() {
    std::vector<Floats> means;
    for (const auto& tensors : cut_) {
        const Bits mask = selected_in(tensors);
        if (has(Bug::large_tensor_not_reduced) && tensors.size() == 1 &&
            problem_.layout.tensors()[tensors.front()].size > 8)
            means.push_back(packed_payload(mask));
        else
            means.push_back(exchanged(mask));
        for (std::size_t before = 0; before + 1 < means.size(); ++before)
            for (float& M : means[before])
                if (has(Bug::earlier_buckets_divided))
                    M = quotient(M, static_cast<float>(ranks_));
    }
    for (std::size_t number = 0; number < cut_.size(); ++number) {
        const bool stale = has(Bug::cut_of_first_step) && number < first_cut_.size();
        write_means(selected_in(stale ? first_cut_[number] : cut_[number]),
                    has(Bug::last_bucket_for_each) ? means.back() : means[number]);
    }
}

} // namespace truestep::properties::scape::planted
