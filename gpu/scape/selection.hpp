#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include <scape/problem/tunable.hpp>

#include "algorithms/code.hpp"
#include "algorithms/select.hpp"
#include "masks.hpp"
#include "segments.hpp"

namespace scape::gpu {

/// The top k of each own segment: the launches of algorithms/select.hpp in their order, and the memory that
/// they work in.
template <class Machine>
class Selection {
  public:
    /// `group_tiles`: tiles of a group, or 0 for what suits the size. Changes no bit. The machine and the
    /// masks have to outlive this.
    Selection(Machine& machine, Masks<Machine>& masks, Index group_tiles)
        : machine_(machine), masks_(masks), group_tiles_(group_tiles) {}

    /// Of c, which stands in e and, on the current mask, in the payload. Writes the own segments' words of
    /// the coming mask, and their code.
    void run(std::span<const MaskCode::Part> own, const float* e, const float* payload,
             std::uint8_t* code) {
        choose_group_tiles(own);
        if (table_.set(machine_, own, groups_of(own, group_tiles_)))
            make_room(table_.segment_count(), table_.part_count());
        const Index segments = table_.segment_count();
        const Index groups = table_.part_count();
        if (groups == 0)
            return;
        SelectArguments a = arguments(e, payload);
        machine_.template run<Prepare>(segments, a);
        machine_.template run<Bracket>(groups, a);
        machine_.template run<Judge>(segments, a);
        for (const std::uint32_t shift : {first_shift, second_shift, 0U}) {
            a.shift = shift;
            machine_.template run<Digit>(groups, a);
            machine_.template run<Pick>(segments, a);
        }
        machine_.template run<TieCount>(groups, a);
        machine_.template run<Offsets>(Offsets::blocks(groups), {ties_.data(), groups, tie_offset_.data()});
        machine_.template run<Take>(groups, a);
        masks_.count(masks_.coming(), own.front().begin, own.back().end, nullptr);
        machine_.template run<Encode>(groups,
                                      {table_.segments(), table_.parts(), masks_.coming().view(), code});
    }

    /// The thresholds of the last step, with the segments that they were of.
    void forget() { table_.forget(); }

  private:
    template <class T>
    using Vector = typename Machine::template Vector<T>;

    void choose_group_tiles(std::span<const MaskCode::Part> own) {
        if (group_tiles_ != 0 || own.empty())
            return;
        // Enough groups for every multiprocessor to have some, and no more blocks than that takes.
        constexpr Index wanted = problem::tunable<Index>(2048, 2);
        group_tiles_ =
            std::clamp<Index>((own.back().end - own.front().begin) / tile / wanted, 1, most_group_tiles);
    }

    void make_room(Index segments, Index groups) {
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

    SelectArguments arguments(const float* e, const float* payload) {
        return {table_.segments(),
                table_.parts(),
                searches_.data(),
                bins_.data(),
                e,
                masks_.current().view(),
                payload,
                room(),
                keys_.data(),
                places_.data(),
                above_.data(),
                inside_.data(),
                ties_.data(),
                tie_offset_.data(),
                masks_.coming().words.data(),
                0};
    }

    Machine& machine_;
    Masks<Machine>& masks_;
    Index group_tiles_;
    SegmentTable<Machine> table_;
    Vector<Search> searches_;
    Vector<std::uint32_t> bins_;
    Vector<std::uint32_t> above_;
    Vector<std::uint32_t> inside_;
    Vector<std::uint32_t> ties_;
    Vector<Index> tie_offset_;
    Vector<std::uint32_t> keys_;
    Vector<std::uint16_t> places_;
};

} // namespace scape::gpu
