#include <scape/distributed/host_backend.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <utility>

#include <scape/distributed/kernels.hpp>
#include <scape/distributed/workers.hpp>

#include "norm.hpp"
#include "rounded_payload.hpp"

namespace scape::distributed {

namespace {

class HostBackend final : public Backend {
  public:
    HostBackend(const problem::Problem& problem, std::span<const float> parameters, int threads)
        : size_(problem.layout.size()), norm_(problem.settings.norm), rounded_(problem.settings.payload),
          w_(parameters.begin(), parameters.end()),
          e_(static_cast<std::size_t>(size_), 0.0F), masks_{Mask(size_), Mask(size_)}, workers_(threads) {}

    Refusal first_refused(const float* gradient) override {
        std::atomic<Index> first{size_};
        over_coordinates([&](Index begin, Index end) {
            const Index found = host::first_unacceptable(gradient, begin, end);
            if (found == end)
                return;
            for (Index before = first; found < before && !first.compare_exchange_weak(before, found);) {
            }
        });
        return {first, first < size_ ? gradient[first] : 0.0F};
    }

    void local_pass(const Scalars& scalars, const float* gradient) override {
        make_room(payload_, current().selected());
        over_coordinates([&](Index begin, Index end) {
            host::local_pass(scalars, begin, end, gradient, e_.data(), last(), m_.data(), current(),
                             payload_.data());
        });
        move_moment();
    }

    void extract_payload() override {
        make_room(payload_, current().selected());
        m_.assign(count_of(current()), 0.0F);
        over_coordinates([&](Index begin, Index end) {
            host::extract(begin, end, e_.data(), current(), payload_.data());
        });
    }

    void select(std::span<const MaskCode::Part> own, std::size_t at) override {
        Mask& next = coming();
        next.clear();
        for (const MaskCode::Part& part : own)
            host::Selector::select(part.begin, part.end, part.k, e_.data(), current(), payload_.data(),
                                   next, thresholds_[part.begin]);
        MaskCode::encode(own, next, code_.data() + at);
    }

    void decode_mask(std::span<const MaskCode::Part> all) override {
        coming().clear();
        MaskCode::decode(all, code_.data(), coming());
        coming().count();
    }

    void advance_mask() override {
        current_ = 1 - current_;
        verdict_ = {};
        verdict_.kept = host::count_common(current().words(), last().words(),
                                           static_cast<Index>(current().word_count()));
    }

    void fold(const Scalars& scalars, int ranks, Index at, Index count) override {
        fold_to(payload_.data() + at, scalars, ranks, count);
    }

    void divide(const Scalars& scalars, Index at, Index count) override { fold(scalars, 1, at, count); }

    bool takes_parts() const override { return true; }

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
        make_room(buckets_[bucket], count);
        float* payload = buckets_[bucket].data();
        for (const problem::Range& range : where) {
            const Index before = coming().offset(range.begin);
            share(range.size(), Mask::word_bits, [&](Index from, Index to) {
                const Index begin = range.begin + from;
                host::gather(scalars, begin, range.begin + to, added ? sum_.data() : nullptr, gradient,
                             e_.data(), current(), m_.data(), coming(),
                             payload + (coming().offset(begin) - before));
            });
            payload += coming().offset(range.end) - before;
        }
        if (rounded_.any())
            round_bucket(bucket, count);
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

    bool rounds_payloads() const override { return true; }

    /// Chunk by chunk, so that nothing has to be kept.
    Refusal first_overflow(const Scalars& scalars, const float* gradient) override {
        std::atomic<Index> first{size_};
        over_coordinates([&](Index share_begin, Index share_end) {
            std::array<float, Mask::chunk> c; // NOLINT: written before it is read
            for (Index begin = share_begin; begin < share_end && begin < first; begin += Mask::chunk) {
                const Index end = std::min(share_end, begin + Mask::chunk);
                const Index count = coming().offset_of_chunk(end) - coming().offset_of_chunk(begin);
                host::gather(scalars, begin, end, nullptr, gradient, e_.data(), current(), m_.data(),
                             coming(), c.data());
                const auto* const found = std::find_if(c.data(), c.data() + count, [](float value) {
                    return element::score(value) >= element::beyond_bf16;
                });
                if (found == c.data() + count)
                    continue;
                const Index at = coordinate(coming(), begin, found - c.data());
                for (Index before = first; at < before && !first.compare_exchange_weak(before, at);) {
                }
            }
        });
        if (first == size_)
            return {size_, 0.0F};
        float c = 0.0F;
        host::gather(scalars, first, first + 1, nullptr, gradient, e_.data(), current(), m_.data(),
                     coming(), &c);
        return {first, c};
    }

    int payload_exponent() override {
        std::atomic<std::uint32_t> greatest{0};
        over_packed(current().selected(), [&](Index begin, Index end) {
            const std::uint32_t found = host::greatest_score_of(begin, end, payload_.data());
            for (std::uint32_t before = greatest;
                 found > before && !greatest.compare_exchange_weak(before, found);) {
            }
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

    void forget_received() override { folded_ = handed_out_; }

    /// ghat itself lives in the cache alone, here and in update(): it is made twice where clipping asks for
    /// its norm.
    void reconstruct(const Scalars& scalars, double clip_norm) override {
        clipping_ = clip_norm > 0.0;
        if (!clipping_)
            return;
        const auto selected = current().selected();
        const Index blocks = (selected + host::norm_block - 1) / host::norm_block;
        std::vector<double> sums(static_cast<std::size_t>(blocks));
        share(blocks, 1, [&](Index begin, Index end) {
            std::array<float, host::norm_block> ghat; // NOLINT: written before it is read
            for (Index block = begin; block < end; ++block) {
                const Index at = block * host::norm_block;
                const Index count = std::min(host::norm_block, selected - at);
                host::reconstruct(scalars, 0, count, payload_.data() + at, m_.data() + at, ghat.data());
                host::square_sums(0, 1, ghat.data(), count, sums.data() + block);
            }
        });
        verdict_.norm = std::sqrt(sum_of_blocks(norm_, sums));
        verdict_.clip_factor = static_cast<float>(std::min(1.0, clip_norm / (verdict_.norm + 1e-6)));
    }

    /// u takes the place of m. M is not looked at: it cannot be non-finite without making its parameter so.
    Verdict update(problem::BiasCorrection correction, const Scalars& scalars) override {
        std::atomic<bool> finite{true};
        over_coordinates([&](Index share_begin, Index share_end) {
            constexpr Index stretch = 8 * Mask::chunk;
            std::array<float, stretch> ghat; // NOLINT: written before it is read
            for (Index begin = share_begin; begin < share_end; begin += stretch) {
                const Index end = std::min(share_end, begin + stretch);
                const Index at = current().offset_of_chunk(begin);
                const Index count = current().offset_of_chunk(end) - at;
                float* const M = payload_.data() + at;
                float* const m = m_.data() + at;
                host::reconstruct(scalars, 0, count, M, m, ghat.data());
                if (clipping_)
                    host::clip(scalars, verdict_.clip_factor, 0, count, m, ghat.data(), M);
                host::directions(correction, scalars, 0, count, M, m, ghat.data(), m);
                if (!host::update(scalars, begin, end, w_.data(), current(), m_.data()))
                    finite = false;
            }
        });
        m_.swap(payload_);
        verdict_.finite = finite;
        return verdict_;
    }

    float* payload() override { return payload_.data(); }
    const void* sent() override { return rounded_.any() ? rounded_.sent() : payload_.data(); }
    const void* sent(std::size_t bucket) override {
        return rounded_.any() ? rounded_.sent(bucket) : buckets_[bucket].data();
    }
    void* received(Index count) override {
        const std::size_t room = handed_out_++ % received_.size();
        if (rounded_.any())
            return rounded_.received(room, count);
        make_room(received_[room], count);
        return received_[room].data();
    }
    int rooms() const override { return static_cast<int>(received_.size()); }
    float* moment() override { return payload_.data(); }
    std::uint8_t* mask_code(std::size_t bytes) override {
        code_.resize(bytes);
        return code_.data();
    }

    const Mask& current_mask() const override { return masks_[current_]; }
    const Mask& coming_mask() const override { return masks_[1 - current_]; }
    std::span<const float> parameters() override { return w_; }
    std::span<const float> residual() override { return e_; }
    std::span<const float> packed_moment() override { return m_; }

    void restore(std::span<const float> parameters, std::span<const float> residual,
                 std::span<const float> packed_moment, const Mask& current_mask,
                 const Mask& coming_mask) override {
        w_.assign(parameters.begin(), parameters.end());
        e_.assign(residual.begin(), residual.end());
        m_.assign(packed_moment.begin(), packed_moment.end());
        current() = current_mask;
        coming() = coming_mask;
        thresholds_.clear();
    }

  private:
    Mask& current() { return masks_[current_]; }
    /// The same place serves the last mask, until m has been moved, and the coming one after that.
    Mask& coming() { return masks_[1 - current_]; }
    Mask& last() { return masks_[1 - current_]; }

    /// m from the last mask to S_t, in its own memory: chunk after chunk, each by way of a copy in the
    /// cache.
    void move_moment() {
        m_.reserve(count_of(current()));
        m_.resize(std::max(count_of(last()), count_of(current())));
        std::array<float, Mask::chunk> values; // NOLINT: written before it is read
        const auto move_chunk = [&](Index chunk) {
            const Index begin = chunk * Mask::chunk;
            const Index end = std::min(size_, begin + Mask::chunk);
            const Index from = last().offset_of_chunk(begin);
            std::copy_n(m_.data() + from, last().offset_of_chunk(end) - from, values.data());
            host::repack(begin, end, last(), values.data(), current(),
                         m_.data() + current().offset_of_chunk(begin));
        };
        // Where the values before some chunk become more, the chunk before it waits until it has gone.
        const Index chunks = (size_ + Mask::chunk - 1) / Mask::chunk;
        for (Index first = 0; first < chunks;) {
            Index next = first + 1;
            while (next < chunks && current().offset_of_chunk(next * Mask::chunk) >
                                        last().offset_of_chunk(next * Mask::chunk))
                ++next;
            for (Index chunk = next; chunk-- > first;)
                move_chunk(chunk);
            first = next;
        }
        m_.resize(count_of(current()));
        if (m_.capacity() / 2 > m_.size())
            m_.shrink_to_fit();
    }

    void fold_to(float* means, const Scalars& scalars, int ranks, Index count) {
        const std::size_t room = folded_++ % received_.size();
        over_packed(count, [&](Index begin, Index end) {
            if (rounded_.any())
                rounded_.fold(room, scalars, ranks, begin, end, count, means);
            else
                host::fold(scalars, ranks, begin, end, received_[room].data(), count, means);
        });
    }

    /// What it loses is made again, and kept, when the step itself is taken.
    void round_bucket(std::size_t bucket, Index count) {
        rounded_.make_room(bucket, count);
        over_packed(count, [&](Index share_begin, Index share_end) {
            std::array<float, Mask::chunk> lost; // NOLINT: nobody reads it
            for (Index begin = share_begin; begin < share_end; begin += Mask::chunk)
                rounded_.round(bucket, std::min(Mask::chunk, share_end - begin),
                               buckets_[bucket].data() + begin, begin, lost.data());
        });
    }

    /// Of the value at `place` among those that the mask has from `begin` on.
    static Index coordinate(const Mask& mask, Index begin, Index place) {
        for (;; ++begin)
            if (mask.test(begin) && place-- == 0)
                return begin;
    }

    static std::size_t count_of(const Mask& mask) { return static_cast<std::size_t>(mask.selected()); }

    /// Calls work(begin, end) for shares of [0, count) that begin at multiples of `unit`.
    template <class Work>
    void share(Index count, Index unit, const Work& work) {
        const Index units = (count + unit - 1) / unit;
        const Index threads = workers_.threads();
        const auto part_begin = [&](Index part) { return std::min(count, units * part / threads * unit); };
        workers_.run([&](int part) {
            if (part_begin(part) < part_begin(part + 1))
                work(part_begin(part), part_begin(part + 1));
        });
    }
    template <class Work>
    void over_coordinates(const Work& work) {
        share(size_, Mask::chunk, work);
    }
    template <class Work>
    void over_packed(Index count, const Work& work) {
        share(count, Mask::word_bits, work);
    }

    Index size_;
    problem::NormVersion norm_;
    RoundedPayload rounded_;
    std::vector<float> w_;
    std::vector<float> e_;
    std::vector<float> m_;                       ///< packed on the last mask, then on S_t; then u
    std::vector<float> payload_;                 ///< c on S_t, then M
    std::array<std::vector<float>, 2> received_; ///< one is folded while the next is filled
    std::size_t handed_out_ = 0;
    std::size_t folded_ = 0;
    std::vector<float> sum_;                  ///< of a gradient's parts, where it comes in parts
    std::vector<std::vector<float>> buckets_; ///< each one's c on the coming mask, then its means
    std::array<Mask, 2> masks_;
    std::size_t current_ = 0;
    std::vector<std::uint8_t> code_;
    std::map<Index, std::uint32_t> thresholds_; ///< of this rank's segments, by their begin
    Verdict verdict_;
    bool clipping_ = false;
    Workers workers_;
};

} // namespace

std::unique_ptr<Backend> make_host_backend(const problem::Problem& problem,
                                           std::span<const float> parameters, int threads) {
    return std::make_unique<HostBackend>(problem, parameters, threads);
}

} // namespace scape::distributed
