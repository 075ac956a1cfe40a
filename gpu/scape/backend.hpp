#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <truestep/distributed/scape/backend.hpp>
#include <truestep/gpu/algorithms/add.hpp>
#include <truestep/gpu/scape/guesses.hpp>

#include "algorithms/exchanged_values.hpp"
#include "algorithms/gather.hpp"
#include "algorithms/local.hpp"
#include "algorithms/mask.hpp"
#include "algorithms/update.hpp"
#include "bucket_places.hpp"
#include "decoding.hpp"
#include "masks.hpp"
#include "norm_launches.hpp"
#include "payload_launches.hpp"
#include "segments.hpp"
#include "selection.hpp"

namespace truestep::gpu::scape {

/// The backend that launches blocks on a machine. The order of algorithms, the number of blocks and
/// the memory are the same for a device and for its host form.
///
/// A machine has vectors (Machine::Vector<T>: data(), size(), swap(); resize() may lose the
/// contents). It runs a number of blocks of an algorithm, one launch after the other, fills memory
/// with a byte, and copies to and from the host's memory. exchange() names the vectors that a
/// communicator will touch, before they have any memory. hand_over() returns when the communicator
/// may touch them, and finish() when all work is done.
template <class Machine>
class BlockBackend final : public distributed::scape::Backend,
                           public distributed::scape::GradientParts,
                           public distributed::scape::RoundedPayloads,
                           public distributed::scape::GroupSums,
                           public Guesses {
    using Refusal = distributed::scape::Refusal;

  public:
    /// `group_tiles`: tiles of a group of selection; 0 chooses by the size. Changes no bit.
    BlockBackend(const problem::Problem& problem, std::span<const float> parameters, Machine machine,
                 Index group_tiles)
        : size_(checked_size(problem)), machine_(std::move(machine)),
          norm_(machine_, problem.settings.norm), travelling_(machine_, problem.settings.payload),
          masks_(machine_, size_), selection_(machine_, masks_, group_tiles), decoding_(machine_, masks_),
          buckets_(machine_) {
        machine_.exchange(m_);
        machine_.exchange(payload_);
        machine_.exchange(spare_);
        machine_.exchange(sums_of_groups_);
        machine_.exchange(code_);
        machine_.resize(w_, size_);
        machine_.resize(e_, size_);
        upload(w_, parameters);
        machine_.fill(e_, 0);
        machine_.resize(results_, 1);
        machine_.fill(results_, 0);
        machine_.finish(); // the parameters may be pinned, and are the caller's
    }

    BlockBackend(const BlockBackend&) = delete;
    BlockBackend& operator=(const BlockBackend&) = delete;
    /// Launched work uses memory that is about to go. An error has been reported before.
    ~BlockBackend() override { BlockBackend::wait_idle(); }

    void wait_idle() noexcept override {
        try {
            machine_.finish();
        } catch (...) { // NOLINT(bugprone-empty-catch)
        }
    }

    [[nodiscard]] Account account() override { return selection_.account(); }

    distributed::scape::Capabilities capabilities() override {
        return {.parts = this, .rounding = this, .groups = this};
    }

    Refusal first_refused(const float* gradient) override {
        const float* const here = machine_.gradient(gradient, size_);
        gradient_ = {gradient, here};
        machine_.fill_bytes(&results_.data()->refused, nothing_refused, sizeof(Index));
        machine_.template run<FirstRefused>(tiles(), {here, size_, &results_.data()->refused});
        Refusal refusal{results().refused, 0.0F};
        if (refusal.index >= size_)
            return {size_, 0.0F};
        machine_.download(&refusal.value, here + refusal.index, 1);
        return refusal;
    }

    void local_pass(const Scalars& scalars, const float* gradient) override {
        machine_.resize(payload_, current().selected);
        machine_.resize(spare_, current().selected);
        // A gradient that has been checked is there already.
        const auto [given, here] = std::exchange(gradient_, {});
        const float* const g =
            here != nullptr && given == gradient ? here : machine_.gradient(gradient, size_);
        const Watch watch = selection_.begin(is_aligned(g) && is_aligned(e_.data()));
        const LocalPassArguments a{scalars,
                                   size_,
                                   g,
                                   e_.data(),
                                   masks_.last().view(),
                                   m_.data(),
                                   current().view(),
                                   payload_.data(),
                                   spare_.data(),
                                   watch};
        machine_.template run<LocalPass>(LocalPass::blocks(tiles(), watch), a);
        machine_.template run<WatchingPass>(WatchingPass::blocks(tiles(), watch), a);
        m_.swap(spare_);
    }

    void hint_next_selection(std::span<const MaskCode::Part> own) override {
        selection_.hint_next_selection(own);
    }

    void extract_payload() override {
        machine_.resize(payload_, current().selected);
        machine_.resize(m_, current().selected);
        machine_.template run<Extract>(tiles(),
                                       {size_, e_.data(), current().view(), payload_.data(), m_.data()});
    }

    void select(std::span<const MaskCode::Part> own, std::size_t at) override {
        selection_.run(own, e_.data(), payload_.data(), code_.data() + at);
        machine_.hand_over();
    }

    void decode_mask(std::span<const MaskCode::Part> all) override {
        decoding_.run(all, size_, code_.data(), &results_.data()->corrupt);
    }

    void advance_mask() override {
        masks_.advance();
        machine_.fill_bytes(&results_.data()->kept, 0, sizeof(Index));
        machine_.template run<InCommon>(
            (masks_.words() + InCommon::words - 1) / InCommon::words,
            {current().words.data(), masks_.last().words.data(), masks_.words(), &results_.data()->kept});
    }

    void fold(const Scalars& scalars, int ranks, Index at, Index count) override {
        travelling_.fold(scalars, ranks, count, spare_.data(), payload_.data() + at);
    }
    void divide(const Scalars& scalars, Index at, Index count) override { fold(scalars, 1, at, count); }

    Refusal first_overflow(const Scalars& scalars, const float* gradient) override {
        const float* const here = gradient_.second != nullptr && gradient_.first == gradient
                                      ? gradient_.second
                                      : machine_.gradient(gradient, size_);
        const Sources from = sources(scalars, nullptr, here);
        const MaskView mask = masks_.coming().view();
        machine_.fill_bytes(&results_.data()->overflow, nothing_refused, sizeof(Index));
        machine_.template run<FirstOverflow>(tiles(), {from, size_, mask, &results_.data()->overflow});
        const Index first = results().overflow;
        if (first >= size_)
            return {size_, 0.0F};
        machine_.template run<Gather>(
            1, {from, size_, first, first + 1, 0, mask, &results_.data()->overflowing});
        return {first, results().overflowing};
    }

    int payload_exponent() override {
        machine_.fill_bytes(&results_.data()->less_greatest, 0, sizeof(Index));
        const Index selected = current().selected;
        machine_.template run<GreatestScore>(tiles_of(selected),
                                             {selected, payload_.data(), &results_.data()->less_greatest});
        return distributed::element::exponent_of_score(
            static_cast<std::uint32_t>(-results().less_greatest));
    }

    void scale_payload(int exponent) override { travelling_.scale(exponent); }
    void round_payload() override { travelling_.round(on_mask(), current().selected); }
    std::byte* round_means(Index at, Index count) override {
        travelling_.write(travelling_.sent(), payload_.data(), at, count);
        return bytes_of(travelling_.sent());
    }
    void take_means(const Scalars& scalars, problem::Range own) override {
        travelling_.take(on_mask(), scalars, own, {0, size_}, 0, travelling_.sent(), payload_.data());
    }

    float* received_sums(Index count) override {
        machine_.resize(sums_of_groups_, count);
        return handed_over(sums_of_groups_);
    }
    void fold_sums(const Scalars& scalars, int groups, Index count, const float* sums,
                   float* means) override {
        travelling_.add(scalars, groups, count, sums, means);
        machine_.hand_over();
    }

    /// On return the gradient is the caller's again, who may overwrite it.
    void accumulate(const float* gradient, bool first) override {
        const float* const here = machine_.gradient(gradient, size_);
        if (sum_.size() != size_)
            machine_.resize(sum_, size_);
        if (first)
            machine_.fetch(sum_.data(), here, size_);
        else
            machine_.template run<AddTo>(tiles(), {here, size_, sum_.data()});
        machine_.finish();
    }
    const float* accumulated() override { return sum_.data(); }

    float* gather(std::size_t bucket, const Scalars& scalars, const float* gradient, bool added,
                  std::span<const problem::Range> where) override {
        buckets_.begin();
        auto& place = buckets_[bucket];
        const Index count = each_of_bucket(coming_mask(), where, [](const problem::Range&, Index) {});
        machine_.resize(place.values, count);
        const Sources from =
            sources(scalars, added ? sum_.data() : nullptr, machine_.gradient_in(gradient, size_, where));
        each_of_bucket(coming_mask(), where, [&](const problem::Range& range, Index first) {
            machine_.template run<Gather>(tiles_over(range), {from, size_, range.begin, range.end, first,
                                                              masks_.coming().view(), place.values.data()});
        });
        if (travelling_.rounds()) { // what that loses is made again, and kept, when the step is taken
            travelling_.make_room(place.sent, count);
            travelling_.write(place.sent, place.values.data(), 0, count);
        }
        return handed_over(place.values);
    }

    void fold_in(std::size_t bucket, const Scalars& scalars, int ranks, Index at, Index count) override {
        travelling_.fold(scalars, ranks, count, buckets_.to_fold(), buckets_[bucket].values.data() + at);
        machine_.hand_over();
    }
    std::byte* round_means_in(std::size_t bucket, Index at, Index count) override {
        auto& place = buckets_[bucket];
        travelling_.write(place.sent, place.values.data(), at, count);
        return bytes_of(place.sent);
    }
    void place(std::size_t bucket, std::span<const problem::Range> where) override {
        each_of_bucket(current_mask(), where, [&](const problem::Range& range, Index first) {
            travelling_.place(on_mask(), range, first, buckets_[bucket].values.data());
        });
    }
    void take_means_of(std::size_t bucket, const Scalars& scalars, problem::Range own,
                       std::span<const problem::Range> where) override {
        const auto& place = buckets_[bucket];
        each_of_bucket(current_mask(), where, [&](const problem::Range& range, Index first) {
            travelling_.take(on_mask(), scalars, own, range, first, place.sent, place.values.data());
        });
    }
    void forget_received() override { buckets_.forget(); }

    void reconstruct(const Scalars& scalars, double clip_norm) override {
        clipping_ = clip_norm > 0.0;
        if (clipping_)
            norm_.run(scalars, current().selected, payload_.data(), m_.data(), clip_norm, results_.data());
    }

    Verdict update(problem::BiasCorrection correction, const Scalars& scalars) override {
        const Direction direction =
            correction == problem::BiasCorrection::momentum ? Direction::momentum : Direction::adam;
        machine_.fill_bytes(&results_.data()->not_finite, 0, sizeof(std::uint32_t));
        machine_.template run<Update>(tiles(),
                                      {scalars, direction, clipping_, size_, w_.data(), current().view(),
                                       payload_.data(), m_.data(), results_.data()});
        m_.swap(payload_);
        const Results end = results();
        Verdict verdict{end.not_finite == 0, end.kept, 0.0, 1.0F};
        if (clipping_) {
            verdict.norm = end.norm;
            verdict.clip_factor = end.clip_factor;
        }
        return verdict;
    }

    float* payload() override { return handed_over(payload_); }
    const void* sent() override {
        return travelling_.rounds() ? static_cast<const void*>(handed_over(travelling_.sent())) : payload();
    }
    const void* sent_of(std::size_t bucket) override {
        auto& place = buckets_[bucket];
        return travelling_.rounds() ? static_cast<const void*>(handed_over(place.sent))
                                    : handed_over(place.values);
    }
    /// A local pass, which moves m into the spare vector, may run while a bucket's values arrive.
    void* received(Index count) override {
        if (buckets_.under_way())
            return handed_over(buckets_.receive(travelling_.floats(count)));
        machine_.resize(spare_, travelling_.floats(count));
        return handed_over(spare_);
    }
    float* moment() override { return handed_over(payload_); }
    std::uint8_t* mask_code(std::size_t bytes) override {
        machine_.resize(code_, static_cast<Index>(bytes));
        return handed_over(code_);
    }

    const Mask& current_mask() const override { return mirror(masks_.current()); }
    const Mask& coming_mask() const override { return mirror(masks_.coming()); }
    std::span<const float> parameters() override { return download(w_, size_, w_mirror_); }
    std::span<const float> residual() override { return download(e_, size_, e_mirror_); }
    std::span<const float> packed_moment() override { return download(m_, current().selected, m_mirror_); }

    void restore(std::span<const float> parameters, std::span<const float> residual,
                 std::span<const float> packed_moment, const Mask& current_mask,
                 const Mask& coming_mask) override {
        upload(w_, parameters);
        upload(e_, residual);
        machine_.resize(m_, static_cast<Index>(packed_moment.size()));
        upload(m_, packed_moment);
        masks_.set(masks_.current(), current_mask);
        masks_.set(masks_.coming(), coming_mask);
        selection_.forget();
        machine_.fill(results_, 0);
        machine_.finish(); // the state may be pinned, and is the caller's
    }

  private:
    template <class T>
    using Vector = typename Machine::template Vector<T>;

    static constexpr int nothing_refused = 0x7f; ///< in every byte: beyond every model's end

    [[nodiscard]] Index tiles() const { return masks_.tiles(); }
    [[nodiscard]] auto& current() { return masks_.current(); }
    [[nodiscard]] Sources sources(const Scalars& scalars, const float* sum, const float* g) {
        return {scalars, sum, g, e_.data(), current().view(), m_.data()};
    }
    [[nodiscard]] typename PayloadLaunches<Machine>::State on_mask() {
        return {size_, current().view(), payload_.data(), e_.data()};
    }

    template <class V>
    auto* handed_over(V& vector) {
        machine_.hand_over();
        return vector.data();
    }

    template <class V>
    std::byte* bytes_of(V& sent) {
        return reinterpret_cast<std::byte*>(handed_over(sent));
    }

    /// Waits for the results so far.
    Results results() const {
        Results end{};
        machine_.download(&end, results_.data(), 1);
        check_mask(end);
        return end;
    }
    static void check_mask(const Results& end) {
        if (end.corrupt != 0)
            throw distributed::scape::CorruptMask(
                "the gathered mask code does not fit this problem's segments; a "
                "sender has another problem, or the message was damaged");
    }

    template <class V>
    void upload(V& to, std::span<const float> from) {
        machine_.upload(to.data(), from.data(), static_cast<Index>(from.size()));
    }
    template <class V>
    std::span<const float> download(V& from, Index size, std::vector<float>& mirror) {
        mirror.resize(static_cast<std::size_t>(size));
        machine_.download(mirror.data(), from.data(), size);
        return mirror;
    }

    const Mask& mirror(const typename Masks<Machine>::Place& place) const {
        if (!place.mirrored)
            static_cast<void>(results());
        return masks_.mirror(place);
    }

    Index size_;
    std::pair<const float*, const float*> gradient_{}; ///< as it was given, and where it can be computed on
    mutable Machine machine_;
    NormLaunches<Machine> norm_;
    Vector<float> w_;
    Vector<float> e_;
    Vector<float> m_;       ///< packed on the last mask, then on S_t
    Vector<float> payload_; ///< c on S_t, then M
    Vector<float> spare_;   ///< m being moved, then what is received
    Vector<float> sums_of_groups_;
    Vector<float> sum_; ///< of a gradient's parts, where it comes in parts
    Vector<std::uint8_t> code_;
    PayloadLaunches<Machine> travelling_;
    Masks<Machine> masks_;
    Selection<Machine> selection_;
    Decoding<Machine> decoding_;
    BucketPlaces<Machine> buckets_;
    Vector<Results> results_;
    bool clipping_ = false;

    std::vector<float> w_mirror_;
    std::vector<float> e_mirror_;
    std::vector<float> m_mirror_;
};

} // namespace truestep::gpu::scape
