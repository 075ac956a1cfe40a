#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <scape/distributed/backend.hpp>
#include <scape/problem/error.hpp>

#include "algorithms/code.hpp"
#include "algorithms/local.hpp"
#include "algorithms/mask.hpp"
#include "algorithms/select.hpp"
#include "algorithms/update.hpp"

namespace scape::gpu {

using distributed::Mask;
using distributed::MaskCode;

/// The backend that launches blocks, over the machine that runs them: which algorithm comes after which,
/// with how many blocks and which memory, is the same for a device and for the host's form of it.
///
/// A machine has vectors (Machine::Vector<T>: data(), size(), swap(); resize() may lose what was there),
/// runs a number of blocks of an algorithm, one launch after the other, fills memory with a byte, and
/// copies to and from the host's memory. exchange() is told which vectors a communicator will touch, before
/// they have any memory, hand_over() returns when it may, and finish() when all has been done.
template <class Machine>
class BlockBackend final : public distributed::Backend {
  public:
    /// `group_tiles`: tiles of a group of selection, or 0 for what suits the size. Changes no bit.
    BlockBackend(const problem::Problem& problem, std::span<const float> parameters, Machine machine,
                 Index group_tiles)
        : size_(problem.layout.size()), group_tiles_(group_tiles), machine_(std::move(machine)) {
        check_sizes(problem);
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
        for (DeviceMask& mask : masks_) {
            machine_.resize(mask.words, words());
            machine_.resize(mask.ranks, words());
            machine_.resize(mask.offsets, tiles() + 1);
            machine_.fill(mask.words, 0);
            machine_.fill(mask.ranks, 0);
            machine_.fill(mask.offsets, 0);
        }
        machine_.resize(tile_counts_, tiles());
        machine_.finish(); // the parameters may be pinned, and are the caller's
    }

    BlockBackend(const BlockBackend&) = delete;
    BlockBackend& operator=(const BlockBackend&) = delete;
    /// What has been launched uses memory that is about to go. An error has been told before.
    ~BlockBackend() override {
        try {
            machine_.finish();
        } catch (...) { // NOLINT(bugprone-empty-catch)
        }
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
        // What has been checked is there already.
        const auto [given, here] = std::exchange(gradient_, {});
        const float* const g =
            here != nullptr && given == gradient ? here : machine_.gradient(gradient, size_);
        machine_.template run<LocalPass>(tiles(), {scalars, size_, g, e_.data(), view(last()), m_.data(),
                                                   view(current()), payload_.data(), spare_.data()});
        m_.swap(spare_);
    }

    void extract_payload() override {
        machine_.resize(payload_, current().selected);
        machine_.resize(m_, current().selected);
        machine_.template run<Extract>(tiles(),
                                       {size_, e_.data(), view(current()), payload_.data(), m_.data()});
    }

    void select(std::span<const MaskCode::Part> own, std::size_t at) override {
        set_segments(select_, own, groups_of(own));
        const Index segments = select_.table.size();
        const Index groups = select_.parts.size();
        if (groups > 0) {
            SelectArguments a = select_arguments();
            machine_.template run<Prepare>(segments, a);
            machine_.template run<Bracket>(groups, a);
            machine_.template run<Judge>(segments, a);
            for (const std::uint32_t shift : {first_shift, second_shift, 0U}) {
                a.shift = shift;
                machine_.template run<Digit>(groups, a);
                machine_.template run<Pick>(segments, a);
            }
            machine_.template run<TieCount>(groups, a);
            machine_.template run<Offsets>(Offsets::blocks(groups),
                                           {ties_.data(), groups, tie_offset_.data()});
            machine_.template run<Take>(groups, a);
            count(coming(), own.front().begin, own.back().end, nullptr);
            machine_.template run<Encode>(
                groups, {select_.table.data(), select_.parts.data(), view(coming()), code_.data() + at});
        }
        machine_.hand_over();
    }

    void decode_mask(std::span<const MaskCode::Part> all) override {
        set_segments(decode_, all, code_tiles_of(all));
        const Index parts = decode_.parts.size();
        machine_.resize(decode_counts_, parts);
        machine_.resize(decode_offsets_, parts + 1);
        DeviceMask& mask = coming();
        machine_.fill(mask.words, 0);
        const DecodeArguments a{decode_.table.data(),     decode_.parts.data(),   code_.data(),
                                decode_counts_.data(),    decode_offsets_.data(), mask.words.data(),
                                &results_.data()->corrupt};
        machine_.template run<DecodeCount>(parts, a);
        machine_.template run<Offsets>(Offsets::blocks(parts), {a.counts, parts, decode_offsets_.data()});
        machine_.template run<Decode>(parts, a);
        count(mask, 0, size_, a.corrupt);
        mask.selected = 0;
        for (const MaskCode::Part& part : all)
            mask.selected += part.k;
        mask.mirrored = false;
    }

    void advance_mask() override {
        current_ = 1 - current_;
        machine_.fill_bytes(&results_.data()->kept, 0, sizeof(Index));
        machine_.template run<InCommon>(
            (words() + InCommon::words - 1) / InCommon::words,
            {current().words.data(), last().words.data(), words(), &results_.data()->kept});
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
        const Index blocks = (selected + SquareSums::norm_block - 1) / SquareSums::norm_block;
        machine_.resize(sums_, blocks);
        machine_.template run<SquareSums>(blocks,
                                          {scalars, selected, payload_.data(), m_.data(), sums_.data()});
        machine_.template run<Clip>(1, {blocks, sums_.data(), clip_norm, results_.data()});
    }

    Verdict update(problem::BiasCorrection correction, const Scalars& scalars) override {
        const Direction direction =
            correction == problem::BiasCorrection::momentum ? Direction::momentum : Direction::adam;
        machine_.fill_bytes(&results_.data()->not_finite, 0, sizeof(std::uint32_t));
        machine_.template run<Update>(tiles(),
                                      {scalars, direction, clipping_, size_, w_.data(), view(current()),
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
    float* received(Index count) override {
        machine_.resize(spare_, count);
        return handed_over(spare_);
    }
    float* moment() override { return handed_over(payload_); }
    std::uint8_t* mask_code(std::size_t bytes) override {
        machine_.resize(code_, static_cast<Index>(bytes));
        return handed_over(code_);
    }

    const Mask& current_mask() const override { return mirror(masks_[current_]); }
    const Mask& coming_mask() const override { return mirror(masks_[1 - current_]); }
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
        set(current(), current_mask);
        set(coming(), coming_mask);
        select_.known.clear(); // and with the table the hints
        machine_.fill(results_, 0);
        machine_.finish(); // the state may be pinned, and is the caller's
    }

  private:
    template <class T>
    using Vector = typename Machine::template Vector<T>;

    struct DeviceMask {
        Vector<std::uint64_t> words;
        Vector<std::uint16_t> ranks;
        Vector<Index> offsets;
        Index selected = 0; ///< known from the ks, without looking
        mutable Mask host{0};
        mutable bool mirrored = false;
    };

    /// A message's segments, and their parts for blocks, which depend on begins and ends alone.
    struct Table {
        std::vector<MaskCode::Part> known;
        Vector<Segment> table;
        Vector<Group> parts;
    };

    static constexpr int nothing_refused = 0x7f; ///< in every byte: beyond every model's end

    static void check_sizes(const problem::Problem& problem) {
        constexpr Index most = (Index{1} << 32) - tile;
        for (const problem::Segment& segment : problem.segments)
            if (segment.size() > most)
                throw Error("segment of " + problem.layout.describe(segment.begin) + ": " +
                            std::to_string(segment.size()) + " coordinates; blocks count up to " +
                            std::to_string(most) + " in one");
    }

    [[nodiscard]] Index words() const { return (size_ + word_bits - 1) / word_bits; }
    [[nodiscard]] Index tiles() const { return (size_ + tile - 1) / tile; }

    DeviceMask& current() { return masks_[current_]; }
    /// The same place serves the last mask, until m has been moved, and the coming one after that.
    DeviceMask& coming() { return masks_[1 - current_]; }
    DeviceMask& last() { return masks_[1 - current_]; }

    static MaskView view(DeviceMask& mask) {
        return {mask.words.data(), mask.ranks.data(), mask.offsets.data()};
    }

    template <class V>
    auto* handed_over(V& vector) {
        machine_.hand_over();
        return vector.data();
    }

    /// The results so far; waits for them.
    Results results() {
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

    const Mask& mirror(const DeviceMask& mask) const {
        if (!mask.mirrored) {
            Results end{};
            machine_.download(&end, results_.data(), 1);
            check_mask(end);
            mask.host = Mask(size_);
            machine_.download(mask.host.words(), mask.words.data(), words());
            mask.host.count();
            mask.mirrored = true;
        }
        return mask.host;
    }
    void set(DeviceMask& mask, const Mask& host) {
        machine_.upload(mask.words.data(), host.words(), words());
        count(mask, 0, size_, nullptr);
        mask.selected = host.selected();
        mask.mirrored = false;
    }

    /// Ranks and offsets of the words that [begin, end) touches, from their tile's begin on.
    void count(DeviceMask& mask, Index begin, Index end, const std::uint32_t* corrupt) {
        const Index first = begin / tile;
        const Index last = (end + tile - 1) / tile;
        const Index first_word = first * tile_words;
        const Index last_word = std::min(last * tile_words, words());
        machine_.template run<CountWords>(
            (last_word - first_word + CountWords::words - 1) / CountWords::words,
            {first_word, last_word, corrupt, view(mask), tile_counts_.data()});
        machine_.template run<Offsets>(Offsets::blocks(last - first),
                                       {tile_counts_.data(), last - first, mask.offsets.data() + first});
    }

    /// The cuts of segments into groups, at tiles of the vector.
    std::vector<Group> groups_of(std::span<const MaskCode::Part> own) {
        if (group_tiles_ == 0 && !own.empty()) {
            // Enough groups for every multiprocessor to have some, and no more blocks than that takes.
            constexpr Index wanted = 2048;
            group_tiles_ = std::clamp<Index>((own.back().end - own.front().begin) / tile / wanted, 1,
                                             most_group_tiles);
        }
        std::vector<Group> groups;
        for (std::size_t number = 0; number < own.size(); ++number)
            for (Index begin = own[number].begin; begin < own[number].end;) {
                const Index end = std::min(own[number].end, (begin / tile + group_tiles_) * tile);
                groups.push_back({begin, end, static_cast<Index>(number)});
                begin = end;
            }
        return groups;
    }
    /// The cuts of segments into tiles of code, counted from the segment's begin.
    static std::vector<Group> code_tiles_of(std::span<const MaskCode::Part> all) {
        std::vector<Group> parts;
        for (std::size_t number = 0; number < all.size(); ++number)
            for (Index begin = all[number].begin; begin < all[number].end; begin += code_tile)
                parts.push_back(
                    {begin, std::min(all[number].end, begin + code_tile), static_cast<Index>(number)});
        return parts;
    }

    void set_segments(Table& table, std::span<const MaskCode::Part> segments,
                      const std::vector<Group>& parts) {
        const auto same = [](const MaskCode::Part& a, const MaskCode::Part& b) {
            return a.begin == b.begin && a.end == b.end && a.k == b.k;
        };
        if (std::ranges::equal(table.known, segments, same))
            return;
        const auto same_place = [](const MaskCode::Part& a, const MaskCode::Part& b) {
            return a.begin == b.begin && a.end == b.end;
        };
        const bool same_places = std::ranges::equal(table.known, segments, same_place);
        table.known.assign(segments.begin(), segments.end());
        std::vector<Segment> rows;
        Index code = 0;
        Index part = 0;
        const auto count = static_cast<Index>(parts.size());
        for (std::size_t number = 0; number < segments.size(); ++number) {
            const auto& [begin, end, k] = segments[number];
            const Index first = part;
            while (part < count &&
                   parts[static_cast<std::size_t>(part)].segment == static_cast<Index>(number))
                ++part;
            rows.push_back({begin, end, k, first, part, code, kind_of(end - begin, k)});
            code += static_cast<Index>(distributed::coded_bytes(end - begin, k));
        }
        machine_.resize(table.table, static_cast<Index>(rows.size()));
        machine_.upload(table.table.data(), rows.data(), static_cast<Index>(rows.size()));
        if (same_places)
            return;
        machine_.resize(table.parts, count);
        machine_.upload(table.parts.data(), parts.data(), count);
        if (&table == &select_)
            make_room_to_select(static_cast<Index>(rows.size()), count);
    }
    static SegmentCode kind_of(Index n, Index k) {
        switch (distributed::code_of(n, k)) {
        case distributed::SegmentCode::nothing:
            return SegmentCode::nothing;
        case distributed::SegmentCode::bitmap:
            return SegmentCode::bitmap;
        case distributed::SegmentCode::positions:
            break;
        }
        return SegmentCode::positions;
    }

    void make_room_to_select(Index segments, Index groups) {
        machine_.resize(searches_, segments);
        machine_.fill(searches_, 0); // no hints
        machine_.resize(bins_, segments * digit_bins);
        machine_.resize(above_, groups);
        machine_.resize(inside_, groups);
        machine_.resize(ties_, groups);
        machine_.resize(tie_offset_, groups + 1);
        machine_.resize(keys_, groups * room());
        machine_.resize(places_, groups * room());
    }
    [[nodiscard]] Index room() const { return group_tiles_ * tile / candidate_share; }

    SelectArguments select_arguments() {
        return {select_.table.data(),
                select_.parts.data(),
                searches_.data(),
                bins_.data(),
                e_.data(),
                view(current()),
                payload_.data(),
                room(),
                keys_.data(),
                places_.data(),
                above_.data(),
                inside_.data(),
                ties_.data(),
                tie_offset_.data(),
                coming().words.data(),
                0};
    }

    Index size_;
    Index group_tiles_;
    std::pair<const float*, const float*> gradient_{}; ///< as it was given, and where it can be computed on
    mutable Machine machine_;
    Vector<float> w_;
    Vector<float> e_;
    Vector<float> m_;       ///< packed on the last mask, then on S_t
    Vector<float> payload_; ///< c on S_t, then M
    Vector<float> spare_;   ///< m being moved, then what is received
    Vector<std::uint8_t> code_;
    DeviceMask masks_[2];
    std::size_t current_ = 0;
    Vector<std::uint32_t> tile_counts_;
    Vector<double> sums_;
    Vector<Results> results_;
    bool clipping_ = false;

    Table select_;
    Vector<Search> searches_;
    Vector<std::uint32_t> bins_;
    Vector<std::uint32_t> above_;
    Vector<std::uint32_t> inside_;
    Vector<std::uint32_t> ties_;
    Vector<Index> tie_offset_;
    Vector<std::uint32_t> keys_;
    Vector<std::uint16_t> places_;

    Table decode_;
    Vector<std::uint32_t> decode_counts_;
    Vector<Index> decode_offsets_;

    std::vector<float> w_mirror_;
    std::vector<float> e_mirror_;
    std::vector<float> m_mirror_;
};

} // namespace scape::gpu
