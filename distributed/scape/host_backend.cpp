// Runs the passes of SCAPE's step on the CPU, and owns the vectors and masks of a rank.
#include <truestep/distributed/scape/host_backend.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <utility>

#include <truestep/distributed/aligned.hpp>
#include <truestep/distributed/kernels.hpp>

#include "host_selection.hpp"
#include "moment_on_mask.hpp"
#include "norm.hpp"
#include "payload_overflow.hpp"
#include "received_rooms.hpp"
#include "rounded_means.hpp"
#include "rounded_payload.hpp"
#include "shares.hpp"
#include "sum_rooms.hpp"

namespace truestep::distributed::scape {

namespace {

class HostBackend final : public Backend,
                          public ConsumedGradients,
                          public GradientParts,
                          public RoundedPayloads,
                          public GroupSums {
  public:
    HostBackend(const problem::Problem& problem, std::span<const float> parameters, int threads)
        : size_(problem.layout.size()), norm_(problem.settings.norm), rounded_(problem.settings.payload),
          w_(parameters.begin(), parameters.end()),
          e_(static_cast<std::size_t>(size_), 0.0F), masks_{Mask(size_), Mask(size_)},
          alone_(problem.workers == 1), shares_(threads), cuts_(shares_.cuts(size_)) {}

    Capabilities capabilities() override { return {this, this, this, this, !alone_, ReceivedRooms::rooms}; }

    Refusal first_refused(const float* gradient) override {
        std::atomic<Index> first{size_};
        over_coordinates([&](Index begin, Index end) {
            const Index found = host::first_unacceptable(gradient, begin, end);
            if (found < end)
                lower(first, found);
        });
        return {first, first < size_ ? gradient[first] : 0.0F};
    }

    void local_pass(const Scalars& scalars, const float* gradient) override {
        static_cast<void>(pass(scalars, gradient, e_.data(), false));
    }

    void hint_next_selection(std::span<const MaskCode::Part> own) override {
        selecting_.hint_next_selection(own);
    }

    Refusal local_pass_over(const Scalars& scalars, std::span<float> gradient) override {
        const Index refused = pass(scalars, gradient.data(), gradient.data(), true);
        return {refused, refused < size_ ? gradient[static_cast<std::size_t>(refused)] : 0.0F};
    }
    void keep(AlignedFloats& gradient) override { e_.swap(gradient); }
    void roll_back() override {
        current_ = 1 - current_;
        m_is_on_last_ = false;
        selecting_.forget();
    }

    void extract_payload() override {
        make_room(payload_, current().selected());
        m_.assign(static_cast<std::size_t>(current().selected()), 0.0F);
        m_is_on_last_ = false;
        over_coordinates([&](Index begin, Index end) {
            host::extract(begin, end, e_.data(), current(), payload_.data());
        });
    }

    void select(std::span<const MaskCode::Part> own, std::size_t at) override {
        selecting_.select(own, e_.data(), current(), payload_.data());
        if (!alone_)
            selecting_.encode(own, code_.data() + at);
    }

    void decode_mask(std::span<const MaskCode::Part> all) override {
        if (alone_)
            selecting_.give_to(coming());
        else
            MaskCode::decode(all, code_.data(), coming()); // of all segments: over the last mask
        coming().count();
    }

    void advance_mask() override {
        current_ = 1 - current_;
        verdict_ = {};
    }

    void fold(const Scalars& scalars, int ranks, Index at, Index count) override {
        fold_to(payload_.data() + at, scalars, ranks, count);
    }

    void divide(const Scalars& scalars, Index at, Index count) override { fold(scalars, 1, at, count); }

    void accumulate(const float* gradient, bool first) override {
        sum_.resize(static_cast<std::size_t>(size_));
        over_coordinates([&](Index begin, Index end) {
            if (first)
                std::copy(gradient + begin, gradient + end, sum_.data() + begin);
            else
                host::add(begin, end, gradient, sum_.data());
        });
    }
    const float* accumulated() override { return sum_.data(); }

    float* gather(std::size_t bucket, const Scalars& scalars, const float* gradient, bool added,
                  std::span<const problem::Range> where) override {
        buckets_.resize(std::max(buckets_.size(), bucket + 1));
        Index count = 0;
        for (const problem::Range& range : where)
            count += coming().offset(range.end) - coming().offset(range.begin);
        float* payload = buckets_[bucket].make(room_to_vary(count));
        for (const problem::Range& range : where) {
            const Index before = coming().offset(range.begin);
            shares_.share(range.size(), Mask::word_bits, [&](Index from, Index to) {
                const Index begin = range.begin + from;
                host::gather(scalars, begin, range.begin + to, added ? sum_.data() : nullptr, gradient,
                             e_.data(), current(), m_.data(), coming(),
                             payload + (coming().offset(begin) - before));
            });
            payload += coming().offset(range.end) - before;
        }
        if (rounded_.any()) { // the rounding error is recomputed, and kept, when the step itself is taken
            rounded_.make_room(bucket, room_to_vary(count));
            static_cast<void>(write_rounded(rounded_.sent(bucket), buckets_[bucket].data(), 0, count));
        }
        return buckets_[bucket].data();
    }

    void fold_in(std::size_t bucket, const Scalars& scalars, int ranks, Index at, Index count) override {
        fold_to(buckets_[bucket].data() + at, scalars, ranks, count);
    }

    void place(std::size_t bucket, std::span<const problem::Range> where) override {
        const float* means = buckets_[bucket].data();
        for (const problem::Range& range : where) {
            const Index at = current().offset(range.begin);
            const Index count = current().offset(range.end) - at;
            std::copy_n(means, count, payload_.data() + at);
            means += count;
        }
    }

    Refusal first_overflow(const Scalars& scalars, const float* gradient) override {
        return first_overflow_of(size_, coming(), shares_, [&](Index begin, Index end, float* c) {
            host::gather(scalars, begin, end, nullptr, gradient, e_.data(), current(), m_.data(), coming(),
                         c);
        });
    }

    int payload_exponent() override {
        std::atomic<std::uint32_t> greatest{0};
        shares_.over_packed(current().selected(), [&](Index begin, Index end) {
            raise(greatest, host::greatest_score_of(begin, end, payload_.data()));
        });
        return element::exponent_of_score(greatest);
    }

    void scale_payload(int exponent) override { rounded_.scale(exponent); }

    void round_payload() override {
        rounded_.make_room(current().selected());
        over_coordinates([&](Index share_begin, Index share_end) {
            std::array<float, Mask::chunk> lost; // NOLINT: written before it is read
            for (Index begin = share_begin; begin < share_end; begin += Mask::chunk) {
                const Index end = std::min(share_end, begin + Mask::chunk);
                const Index at = current().offset_of_chunk(begin);
                rounded_.round(current().offset_of_chunk(end) - at, payload_.data() + at, at, lost.data());
                host::spread(begin, end, lost.data(), current(), e_.data());
            }
        });
    }

    std::byte* round_means(Index at, Index count) override {
        return write_rounded(rounded_.sent(), payload_.data(), at, count);
    }
    std::byte* round_means_in(std::size_t bucket, Index at, Index count) override {
        return write_rounded(rounded_.sent(bucket), buckets_[bucket].data(), at, count);
    }
    void take_means(const Scalars& scalars, problem::Range own) override {
        MeansThatCame{rounded_, rounded_.sent(), payload_.data(), own}.take(
            shares_, scalars, current(), {0, size_}, 0, payload_.data(), e_.data());
    }
    void take_means_of(std::size_t bucket, const Scalars& scalars, problem::Range own,
                       std::span<const problem::Range> where) override {
        const MeansThatCame came{rounded_, rounded_.sent(bucket), buckets_[bucket].data(), own};
        Index first = 0;
        for (const problem::Range& range : where) {
            came.take(shares_, scalars, current(), range, first, payload_.data(), e_.data());
            first += current().offset(range.end) - current().offset(range.begin);
        }
    }

    void forget_received() override { received_.forget(); }

    float* received_sums(Index count) override { return sums_.hand_out(count); }
    void fold_sums(const Scalars& s, int groups, Index count, const float* sums, float* means) override {
        shares_.over_packed(count,
                            [&](Index a, Index b) { host::fold(s, groups, a, b, sums, count, means); });
    }

    /// ghat itself exists only in the cache, here and in update(): it is made twice if clipping
    /// needs its norm.
    void reconstruct(const Scalars& scalars, double clip_norm) override {
        clipping_ = clip_norm > 0.0;
        if (!clipping_)
            return;
        move_moment_now();
        const auto selected = current().selected();
        const Index blocks = (selected + host::norm_block - 1) / host::norm_block;
        block_sums_.resize(static_cast<std::size_t>(blocks));
        shares_.share(blocks, 1, [&](Index begin, Index end) {
            std::array<float, host::norm_block> ghat; // NOLINT: written before it is read
            for (Index block = begin; block < end; ++block) {
                const Index at = block * host::norm_block;
                const Index count = std::min(host::norm_block, selected - at);
                host::reconstruct(scalars, 0, count, payload_.data() + at, m_.data() + at, ghat.data());
                host::square_sums(0, 1, ghat.data(), count, block_sums_.data() + block);
            }
        });
        verdict_.norm = std::sqrt(sum_of_blocks(norm_, block_sums_));
        verdict_.clip_factor = static_cast<float>(std::min(1.0, clip_norm / (verdict_.norm + 1e-6)));
    }

    /// M is not checked: it cannot be non-finite without making its parameter so.
    Verdict update(problem::BiasCorrection correction, const Scalars& scalars) override {
        std::atomic<bool> finite{true};
        std::atomic<Index> kept{0};
        over_coordinates([&](Index share_begin, Index share_end) {
            constexpr Index stretch = 2 * Mask::chunk;
            std::array<float, stretch> moved; // NOLINT: written before it is read
            std::array<float, stretch> ghat;  // NOLINT: the same; and then u
            for (Index begin = share_begin; begin < share_end; begin += stretch) {
                const Index end = std::min(share_end, begin + stretch);
                const Index at = current().offset_of_chunk(begin);
                const Index count = current().offset_of_chunk(end) - at;
                float* const M = payload_.data() + at;
                const float* m = m_.data() + at;
                if (m_is_on_last_) {
                    host::repack(begin, end, last(), m_.data() + last().offset_of_chunk(begin), current(),
                                 moved.data());
                    m = moved.data();
                }
                host::reconstruct(scalars, 0, count, M, m, ghat.data());
                if (clipping_)
                    host::clip(scalars, verdict_.clip_factor, 0, count, m, ghat.data(), M);
                host::directions(correction, scalars, 0, count, M, m, ghat.data(), ghat.data());
                if (!host::update(scalars, begin, end, w_.data(), current(), ghat.data()))
                    finite = false;
                const Index word = begin / Mask::word_bits;
                kept += host::count_common(current().words() + word, last().words() + word,
                                           (end + Mask::word_bits - 1) / Mask::word_bits - word);
            }
        });
        m_.swap(payload_);
        m_is_on_last_ = false;
        received_.end_step();
        for (auto& bucket : buckets_)
            bucket.end_step();
        rounded_.end_step();
        sums_.end_step();
        verdict_.finite = finite;
        verdict_.kept = kept;
        return verdict_;
    }

    float* payload() override { return payload_.data(); }
    const void* sent() override {
        return rounded_.any() ? static_cast<const void*>(rounded_.sent().data()) : payload_.data();
    }
    const void* sent_of(std::size_t bucket) override {
        return rounded_.any() ? static_cast<const void*>(rounded_.sent(bucket).data())
                              : buckets_[bucket].data();
    }
    void* received(Index count) override { return received_.hand_out(rounded_, count); }
    float* moment() override { return payload_.data(); }
    std::uint8_t* mask_code(std::size_t bytes) override {
        code_.resize(bytes);
        return code_.data();
    }

    const Mask& current_mask() const override { return masks_[current_]; }
    const Mask& coming_mask() const override { return masks_[1 - current_]; }
    std::span<const float> parameters() override { return w_; }
    std::span<const float> residual() override { return e_; }
    std::span<const float> packed_moment() override {
        move_moment_now();
        return m_;
    }

    void restore(std::span<const float> parameters, std::span<const float> residual,
                 std::span<const float> packed_moment, const Mask& current_mask,
                 const Mask& coming_mask) override {
        w_.assign(parameters.begin(), parameters.end());
        e_.assign(residual.begin(), residual.end());
        m_.assign(packed_moment.begin(), packed_moment.end());
        current() = current_mask;
        coming() = coming_mask;
        m_is_on_last_ = false;
        selecting_.forget();
        selecting_.forget_guesses();
    }

  private:
    Mask& current() { return masks_[current_]; }
    /// One place serves the last mask until the step has ended, and the coming one after that.
    Mask& coming() { return masks_[1 - current_]; }
    Mask& last() { return masks_[1 - current_]; }

    /// Sections 4.2, 4.4 and 4.6; the residual goes to `kept`. Returns the first refused
    /// coordinate, if it checks, or the size.
    Index pass(const Scalars& scalars, const float* gradient, float* kept, bool checks) {
        make_room(payload_, current().selected());
        m_is_on_last_ = true;
        selecting_.begin(cuts_);
        std::atomic<Index> first{size_};
        shares_.each_part([&](std::size_t part) {
            const Index begin = cuts_[part];
            const Index end = cuts_[part + 1];
            const Index found = host::local_pass(scalars, begin, end,
                                                 {gradient, e_.data(), kept, last(), m_.data(), current(),
                                                  payload_.data(), selecting_.watches(part), checks});
            if (found < end)
                lower(first, found);
        });
        return first;
    }

    /// Moves m to S_t, if a packed pass needs it; otherwise the update moves it chunk by chunk.
    void move_moment_now() {
        if (m_is_on_last_)
            move_moment(last(), current(), m_);
        m_is_on_last_ = false;
    }

    void fold_to(float* means, const Scalars& scalars, int ranks, Index count) {
        const std::size_t room = received_.to_fold();
        shares_.over_packed(count, [&](Index begin, Index end) {
            if (rounded_.any())
                rounded_.fold(room, scalars, ranks, begin, end, count, means);
            else
                host::fold(scalars, ranks, begin, end, received_.values(room), count, means);
        });
    }

    /// Writes `count` values from `at` on in the format that travels, and returns the whole buffer.
    std::byte* write_rounded(RoundedPayload::Bytes& to, const float* values, Index at, Index count) {
        shares_.over_packed(count, [&](Index begin, Index end) {
            rounded_.write(to, end - begin, values + at + begin, at + begin);
        });
        return to.data();
    }

    template <class Work>
    void over_coordinates(const Work& work) {
        shares_.over_coordinates(size_, work);
    }

    Index size_;
    problem::NormVersion norm_;
    RoundedPayload rounded_;
    AlignedFloats w_;
    AlignedFloats e_;
    AlignedFloats m_;       ///< packed on the last mask, or on S_t
    AlignedFloats payload_; ///< c on S_t, then M
    ReceivedRooms received_;
    SumRooms sums_;     ///< of groups
    AlignedFloats sum_; ///< of a gradient's parts, if it comes in parts
    std::vector<ReusableBuffer<AlignedFloats>>
        buckets_; ///< each one's c on the coming mask, then its means
    std::array<Mask, 2> masks_;
    std::size_t current_ = 0;
    std::vector<std::uint8_t> code_;
    HostSelection selecting_;
    bool m_is_on_last_ = false; ///< not yet on S_t
    bool alone_;
    Verdict verdict_;
    bool clipping_ = false;
    Shares shares_;
    std::vector<Index> cuts_; ///< of the threads' shares
    std::vector<double> block_sums_;
};

} // namespace

std::unique_ptr<Backend> make_host_backend(const problem::Problem& problem,
                                           std::span<const float> parameters, int threads) {
    return std::make_unique<HostBackend>(problem, parameters, threads);
}

} // namespace truestep::distributed::scape
