#include <scape/distributed/host_backend.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include <scape/distributed/kernels.hpp>
#include <scape/distributed/workers.hpp>

namespace scape::distributed {

namespace {

class HostBackend final : public Backend {
  public:
    HostBackend(const problem::Problem& problem, std::span<const float> parameters, int threads)
        : size_(problem.layout.size()), w_(parameters.begin(), parameters.end()),
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
        payload_.resize(count_of(current()));
        spare_.resize(count_of(current()));
        over_coordinates([&](Index begin, Index end) {
            host::local_pass(scalars, begin, end, gradient, e_.data(), last(), m_.data(), current(),
                             payload_.data());
            host::repack(begin, end, last(), m_.data(), current(), spare_.data());
        });
        m_.swap(spare_);
    }

    void extract_payload() override {
        payload_.resize(count_of(current()));
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
        for (std::size_t i = 0; i < current().word_count(); ++i)
            verdict_.kept += std::popcount(current().words()[i] & last().words()[i]);
    }

    void fold(const Scalars& scalars, int ranks, Index at, Index count) override {
        over_packed(count, [&](Index begin, Index end) {
            host::fold(scalars, ranks, begin, end, spare_.data(), count, payload_.data() + at);
        });
    }

    void divide(const Scalars& scalars, Index at, Index count) override {
        over_packed(count, [&](Index begin, Index end) {
            host::fold(scalars, 1, begin, end, spare_.data(), count, payload_.data() + at);
        });
    }

    void reconstruct(const Scalars& scalars, double clip_norm) override {
        const auto selected = current().selected();
        spare_.resize(count_of(current()));
        over_packed(selected, [&](Index begin, Index end) {
            host::reconstruct(scalars, begin, end, payload_.data(), m_.data(), spare_.data());
        });
        if (clip_norm == 0.0)
            return;
        const Index blocks = (selected + host::norm_block - 1) / host::norm_block;
        std::vector<double> sums(static_cast<std::size_t>(blocks));
        share(blocks, 1, [&](Index begin, Index end) {
            host::square_sums(begin, end, spare_.data(), selected, sums.data());
        });
        double total = 0.0;
        for (const double sum : sums)
            total += sum;
        verdict_.norm = std::sqrt(total);
        verdict_.clip_factor = static_cast<float>(std::min(1.0, clip_norm / (verdict_.norm + 1e-6)));
        over_packed(selected, [&](Index begin, Index end) {
            host::clip(scalars, verdict_.clip_factor, begin, end, m_.data(), spare_.data(),
                       payload_.data());
        });
    }

    Verdict update(problem::BiasCorrection correction, const Scalars& scalars) override {
        std::atomic<bool> finite{true};
        over_packed(current().selected(), [&](Index begin, Index end) {
            for (Index i = begin; i < end; ++i)
                if (!std::isfinite(payload_[static_cast<std::size_t>(i)]))
                    finite = false;
            host::directions(correction, scalars, begin, end, payload_.data(), m_.data(), spare_.data(),
                             spare_.data());
        });
        over_coordinates([&](Index begin, Index end) {
            if (!host::update(scalars, begin, end, w_.data(), current(), spare_.data()))
                finite = false;
        });
        m_.swap(payload_);
        verdict_.finite = finite;
        return verdict_;
    }

    float* payload() override { return payload_.data(); }
    float* received(Index count) override {
        spare_.resize(static_cast<std::size_t>(count));
        return spare_.data();
    }
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
    std::vector<float> w_;
    std::vector<float> e_;
    std::vector<float> m_;       ///< packed on the last mask, then on S_t
    std::vector<float> payload_; ///< c on S_t, then M
    std::vector<float> spare_;   ///< m being moved, then what is received, then ghat, then u
    std::array<Mask, 2> masks_;
    std::size_t current_ = 0;
    std::vector<std::uint8_t> code_;
    std::map<Index, std::uint32_t> thresholds_; ///< of this rank's segments, by their begin
    Verdict verdict_;
    Workers workers_;
};

} // namespace

std::unique_ptr<Backend> make_host_backend(const problem::Problem& problem,
                                           std::span<const float> parameters, int threads) {
    return std::make_unique<HostBackend>(problem, parameters, threads);
}

} // namespace scape::distributed
