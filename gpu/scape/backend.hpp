#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <scape/distributed/backend.hpp>
#include <scape/gpu/guesses.hpp>

#include "algorithms/code.hpp"
#include "algorithms/local.hpp"
#include "algorithms/mask.hpp"
#include "algorithms/update.hpp"
#include "masks.hpp"
#include "segments.hpp"
#include "selection.hpp"

namespace scape::gpu {

/// The backend that launches blocks, over the machine that runs them: which algorithm comes after which,
/// with how many blocks and which memory, is the same for a device and for the host's form of it.
///
/// A machine has vectors (Machine::Vector<T>: data(), size(), swap(); resize() may lose what was there),
/// runs a number of blocks of an algorithm, one launch after the other, fills memory with a byte, and
/// copies to and from the host's memory. exchange() is told which vectors a communicator will touch, before
/// they have any memory, hand_over() returns when it may, and finish() when all has been done.
template <class Machine>
class BlockBackend final : public distributed::Backend, public Guesses {
  public:
    /// `group_tiles`: tiles of a group of selection, or 0 for what suits the size. Changes no bit.
    BlockBackend(const problem::Problem& problem, std::span<const float> parameters, Machine machine,
                 Index group_tiles)
        : size_(checked_size(problem)), norm_(problem.settings.norm), machine_(std::move(machine)),
          masks_(machine_, size_), selection_(machine_, masks_, group_tiles) {
        machine_.exchange(m_);
        machine_.exchange(payload_);
        machine_.exchange(spare_);
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
    /// What has been launched uses memory that is about to go. An error has been told before.
    ~BlockBackend() override { BlockBackend::settle(); }

    void settle() noexcept override {
        try {
            machine_.finish();
        } catch (...) { // NOLINT(bugprone-empty-catch)
        }
    }

    [[nodiscard]] Account account() override { return selection_.account(); }

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
        // What has been checked is there already.
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

    void foresee(std::span<const MaskCode::Part> own) override { selection_.foresee(own); }

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
        if (decode_.set(machine_, all, [&] { return code_tiles_of(all); })) {
            const Pieces pieces = pieces_of(all, size_);
            decode_.place(machine_, pieces_, pieces.pieces);
            decode_.place(machine_, first_piece_, pieces.first);
        }
        const Index parts = decode_.part_count();
        machine_.resize(decode_counts_, parts);
        machine_.resize(decode_offsets_, parts + 1);
        auto& mask = masks_.coming();
        machine_.template run<DecodeCount>(
            parts, {decode_.segments(), decode_.parts(), code_.data(), decode_counts_.data()});
        decode_sums_.run(machine_, decode_counts_.data(), parts, decode_offsets_.data());
        machine_.template run<Decode>((size_ + decode_chunk - 1) / decode_chunk,
                                      {decode_.segments(), pieces_.data(), first_piece_.data(),
                                       code_.data(), decode_offsets_.data(), masks_.words(), mask.view(),
                                       masks_.tile_counts(), &results_.data()->corrupt});
        masks_.sum_up(mask);
        mask.selected = 0;
        for (const MaskCode::Part& part : all)
            mask.selected += part.k;
        mask.mirrored = false;
    }

    void advance_mask() override {
        masks_.advance();
        machine_.fill_bytes(&results_.data()->kept, 0, sizeof(Index));
        machine_.template run<InCommon>(
            (masks_.words() + InCommon::words - 1) / InCommon::words,
            {current().words.data(), masks_.last().words.data(), masks_.words(), &results_.data()->kept});
    }

    void fold(const Scalars& scalars, int ranks, Index at, Index count) override {
        machine_.template run<Fold>((count + tile - 1) / tile,
                                    {scalars.workers, ranks, count, spare_.data(), payload_.data() + at});
    }
    void divide(const Scalars& scalars, Index at, Index count) override { fold(scalars, 1, at, count); }

    void reconstruct(const Scalars& scalars, double clip_norm) override {
        clipping_ = clip_norm > 0.0;
        if (!clipping_)
            return;
        const Index selected = current().selected;
        Index blocks = (selected + SquareSums::norm_block - 1) / SquareSums::norm_block;
        machine_.resize(sums_, blocks);
        machine_.template run<SquareSums>(blocks,
                                          {scalars, selected, payload_.data(), m_.data(), sums_.data()});
        for (; norm_ == problem::NormVersion::tree && blocks > 1; sums_.swap(level_)) {
            const Index groups = (blocks + TreeSums::group - 1) / TreeSums::group;
            machine_.resize(level_, groups);
            machine_.template run<TreeSums>(groups, {blocks, sums_.data(), level_.data()});
            blocks = groups;
        }
        machine_.template run<Clip>(1, {blocks, sums_.data(), clip_norm, results_.data()});
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
    void* received(Index count) override {
        machine_.resize(spare_, count);
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

    template <class V>
    auto* handed_over(V& vector) {
        machine_.hand_over();
        return vector.data();
    }

    /// The results so far; waits for them.
    Results results() const {
        Results end{};
        machine_.download(&end, results_.data(), 1);
        check_mask(end);
        return end;
    }
    static void check_mask(const Results& end) {
        if (end.corrupt != 0)
            throw distributed::CorruptMask("the gathered mask code is none of this problem's segments; a "
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
    problem::NormVersion norm_;
    std::pair<const float*, const float*> gradient_{}; ///< as it was given, and where it can be computed on
    mutable Machine machine_;
    Vector<float> w_;
    Vector<float> e_;
    Vector<float> m_;       ///< packed on the last mask, then on S_t
    Vector<float> payload_; ///< c on S_t, then M
    Vector<float> spare_;   ///< m being moved, then what is received
    Vector<std::uint8_t> code_;
    Masks<Machine> masks_;
    Selection<Machine> selection_;
    Vector<double> sums_;
    Vector<double> level_; ///< of the norm's tree, above sums_
    Vector<Results> results_;
    bool clipping_ = false;

    SegmentTable<Machine> decode_;
    Vector<Group> pieces_;
    Vector<Index> first_piece_;
    Vector<std::uint32_t> decode_counts_;
    Vector<Index> decode_offsets_;
    OffsetsOf<Machine> decode_sums_;

    std::vector<float> w_mirror_;
    std::vector<float> e_mirror_;
    std::vector<float> m_mirror_;
};

} // namespace scape::gpu
