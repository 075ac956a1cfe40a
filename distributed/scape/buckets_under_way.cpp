// Exchanges a SCAPE step's gradient in buckets, while the caller still computes later ones.
#include "buckets_under_way.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include <truestep/distributed/scape/buckets.hpp>
#include <truestep/problem/error.hpp>

#include "reusable_buffer.hpp"

namespace truestep::distributed::scape {

Buckets buckets_of(const problem::Layout& model, std::size_t bucket_bytes) {
    const auto room = static_cast<Index>(bucket_bytes / sizeof(float));
    if (room < 1)
        throw Error("bucket_bytes is " + std::to_string(bucket_bytes) + "; a value needs " +
                    std::to_string(sizeof(float)));
    Buckets buckets;
    Index filled = 0;
    for (std::size_t tensor = model.tensors().size(); tensor-- > 0;) {
        const Index size = model.tensors()[tensor].size;
        if (buckets.empty() || filled + size > room) {
            buckets.emplace_back();
            filled = 0;
        }
        buckets.back().push_back(tensor);
        filled += size;
    }
    return buckets;
}

std::string BucketsUnderWay::fault_of(std::span<const std::size_t> tensors) const {
    const auto& all = problem_.layout.tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const std::size_t tensor = tensors[i];
        if (tensor >= all.size())
            return "there is no tensor " + std::to_string(tensor) + "; the model has " +
                   std::to_string(all.size()) + ", from 0 on";
        if ((any() && given_[tensor]) || (i > 0 && tensors[i - 1] == tensor))
            return "tensor " + all[tensor].name + " comes a second time; give each one once a step";
    }
    return tensors.empty() ? "it has no tensors; give at least one" : "";
}

std::string BucketsUnderWay::missing() const {
    const auto& all = problem_.layout.tensors();
    for (std::size_t tensor = 0; any() && tensor < all.size(); ++tensor)
        if (!given_[tensor] && all[tensor].size > 0)
            return "no bucket has held tensor " + all[tensor].name +
                   "; give every tensor before the step, or none";
    return {};
}

AgreementResult BucketsUnderWay::agree(Index step, std::span<const std::size_t> tensors,
                                       const RestoredDigests& restored, int claim) {
    sorted_.assign(tensors.begin(), tensors.end());
    std::ranges::sort(sorted_);
    const AgreementResult agreed = agree_on_bucket(communicator_, agreement_, sorted_,
                                                   {step, count_ + 1, fault_of(sorted_), restored, claim});

    if (buckets_.size() == count_)
        buckets_.emplace_back();
    Bucket& bucket = buckets_[count_];
    bucket.where.clear();
    given_.resize(problem_.layout.tensors().size());
    for (const std::size_t tensor : sorted_) {
        given_[tensor] = true;
        const problem::Range range{problem_.layout.begin(tensor), problem_.layout.end(tensor)};
        if (!bucket.where.empty() && bucket.where.back().end == range.begin)
            bucket.where.back().end = range.end;
        else
            bucket.where.push_back(range);
    }
    ++count_;
    return agreed;
}

/// Counts the selected coordinates of the coming mask, within the bucket, in each rank's range.
void BucketsUnderWay::count_selected(Bucket& bucket) const {
    const Mask& mask = backend_.coming_mask();
    bucket.selected.assign(ranges_.size(), 0);
    std::size_t owner = 0;
    for (const problem::Range& range : bucket.where)
        for (Index begin = range.begin; begin < range.end;) {
            while (ranges_[owner].end <= begin)
                ++owner;
            const Index end = std::min(range.end, ranges_[owner].end);
            bucket.selected[owner] += mask.offset(end) - mask.offset(begin);
            begin = end;
        }
}

/// Valid until the next call.
std::span<const std::size_t> BucketsUnderWay::bytes_of(const std::vector<Index>& values,
                                                       std::size_t value_bytes) {
    bytes_.clear();
    for (const Index count : values)
        bytes_.push_back(static_cast<std::size_t>(count) * value_bytes);
    return bytes_;
}

void BucketsUnderWay::start(const Scalars& scalars, const float* gradient, bool added, Bytes& sent) {
    started_ = true;
    const std::size_t number = count_ - 1;
    Bucket& bucket = buckets_[number];
    count_selected(bucket);
    bucket.payload = can_.parts->gather(number, scalars, gradient, added, bucket.where);
    bucket.exchange = start_payload(number, sent);
    // The bucket before has had time to arrive.
    if (number > 0)
        means_back(number - 1, scalars, sent);
}

std::unique_ptr<Exchange> BucketsUnderWay::start_payload(std::size_t number, Bytes& sent) {
    const Bucket& bucket = buckets_[number];
    std::uint64_t& bytes = sent[static_cast<std::size_t>(Traffic::payload)];
    if (groups_ != nullptr) {
        bytes += groups_->bytes_sent(bucket.selected);
        return groups_->start(can_.parts->sent_of(number), bucket.selected);
    }
    const auto me = static_cast<std::size_t>(communicator_.rank());
    const auto to = bytes_of(bucket.selected, value_bytes(problem_.settings.payload));
    bytes += std::reduce(to.begin(), to.end()) - to[me];
    const Index values = bucket.selected[me];
    if (reduction_ == Reduction::ordered)
        return communicator_.start_all_to_owners(
            Traffic::payload, can_.parts->sent_of(number), to, {},
            backend_.received(room_to_vary(values) * communicator_.size()));
    return communicator_.start_reduce_scatter(
        Traffic::payload, bucket.payload, static_cast<float*>(backend_.received(room_to_vary(values))), to);
}

/// Replaces the owner's values by its means, and sends them to all.
void BucketsUnderWay::means_back(std::size_t number, const Scalars& scalars, Bytes& sent) {
    Bucket& bucket = buckets_[number];
    bucket.exchange->wait();
    bucket.exchange.reset();
    const int me = communicator_.rank();
    const Index own = bucket.selected[static_cast<std::size_t>(me)];
    const Index at = std::accumulate(bucket.selected.begin(), bucket.selected.begin() + me, Index{0});
    if (groups_ != nullptr)
        groups_->finish(number, bucket.payload, scalars, bucket.selected);
    else
        can_.parts->fold_in(number, scalars, reduction_ == Reduction::ordered ? communicator_.size() : 1,
                            at, own);
    const problem::Payload payload = problem_.settings.payload;
    std::byte* means = rounds_mean(payload) ? can_.rounding->round_means_in(number, at, own)
                                            : reinterpret_cast<std::byte*>(bucket.payload);
    const auto by_owner = bytes_of(bucket.selected, mean_bytes(payload));
    const auto before = static_cast<std::size_t>(at) * mean_bytes(payload);
    bucket.exchange = communicator_.start_all_gather(Traffic::moment, means + before, means, by_owner);
    sent[static_cast<std::size_t>(Traffic::moment)] += communicator_.sent_by_gather(by_owner);
}

void BucketsUnderWay::finish(const Scalars& scalars, Bytes& sent) {
    means_back(count_ - 1, scalars, sent);
    for (std::size_t number = 0; number < count_; ++number) {
        buckets_[number].exchange->wait();
        buckets_[number].exchange.reset();
        if (rounds_mean(problem_.settings.payload))
            can_.rounding->take_means_of(number, scalars,
                                         ranges_[static_cast<std::size_t>(communicator_.rank())],
                                         buckets_[number].where);
        else
            can_.parts->place(number, buckets_[number].where);
    }
}

void BucketsUnderWay::forget() noexcept {
    for (Bucket& bucket : buckets_)
        if (bucket.exchange)
            try {
                bucket.exchange->settle();
            } catch (...) { // the ranks have been informed already
            }
    for (Bucket& bucket : buckets_)
        bucket.exchange.reset();
    count_ = 0;
    given_.clear();
    started_ = false;
    if (can_.parts != nullptr)
        can_.parts->forget_received();
}

} // namespace truestep::distributed::scape
