#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <truestep/gpu/scape/guesses.hpp>
#include <truestep/problem/tunable.hpp>

#include "algorithms/code.hpp"
#include "algorithms/local.hpp"
#include "algorithms/select.hpp"
#include "masks.hpp"
#include "segments.hpp"

namespace truestep::gpu::scape {

/// Selects the top k of each own segment: the launches of algorithms/select.hpp in their order, and
/// the memory that they work in.
template <class Machine>
class Selection {
  public:
    /// `group_tiles`: tiles of a group; 0 chooses by the size. Changes no bit. The machine and the
    /// masks have to outlive this.
    Selection(Machine& machine, Masks<Machine>& masks, Index group_tiles)
        : machine_(machine), masks_(masks), group_tiles_(group_tiles) {}

    using Parts = std::span<const MaskCode::Part>;

    /// Announces the segments of the run() behind the next local pass.
    void hint_next_selection(Parts own) { foreseen_.assign(own.begin(), own.end()); }

    /// Begins a local pass; returns what it has to look for, if its vectors are aligned.
    [[nodiscard]] Watch begin(bool aligned) {
        begun_ = aligned && !foreseen_.empty() && prepare(foreseen_);
        if (!begun_)
            return {};
        return {first_tile_, watched_.size(), watched_.data(), arguments(nullptr, nullptr)};
    }

    /// Selects by c, which is in e and, on the current mask, in the payload. Writes the own
    /// segments' words of the coming mask, and their code.
    void run(Parts own, const float* e, const float* payload, std::uint8_t* code) {
        const bool looked_at = begun_ && std::ranges::equal(own, foreseen_);
        begun_ = false;
        foreseen_.clear();
        if (!looked_at && !prepare(own))
            return;
        const Index segments = table_.segment_count();
        const Index groups = table_.part_count();
        SelectArguments a = arguments(e, payload);
        a.looked_at = looked_at;
        machine_.template run<Bracket>(groups, a);
        machine_.template run<Judge>(segments, a);
        for (const std::uint32_t shift : {first_shift, second_shift, 0U}) {
            a.shift = shift;
            machine_.template run<Digit>(groups, a);
            machine_.template run<Pick>(segments, a);
        }
        machine_.template run<TieCount>(groups, a);
        tie_sums_.run(machine_, ties_.data(), groups, tie_offset_.data());
        machine_.template run<Take>(groups, a);
        masks_.count(masks_.coming(), own.front().begin, own.back().end);
        machine_.template run<Encode>(groups,
                                      {table_.segments(), table_.parts(), masks_.coming().view(), code});
    }

    /// Forgets the thresholds of the last step, with their segments.
    void forget() {
        table_.forget();
        foreseen_.clear();
        begun_ = false;
    }

    /// The account of the last run().
    [[nodiscard]] Guesses::Account account() {
        std::vector<Search> searches(static_cast<std::size_t>(searches_.size()));
        if (!searches.empty())
            machine_.download(searches.data(), searches_.data(), searches_.size());
        Guesses::Account account;
        for (const Search& search : searches) {
            account.looked_for += search.state != SearchState::whole ? 1 : 0;
            account.held += search.state == SearchState::candidates ? 1 : 0;
        }
        return account;
    }

  private:
    template <class T>
    using Vector = typename Machine::template Vector<T>;

    /// Sets where each segment's search begins. Returns false if there is nothing to select from.
    bool prepare(Parts own) {
        choose_group_tiles(own);
        const auto cut = [&] {
            std::vector<Group> groups = groups_of(own, group_tiles_);
            watch(groups);
            cells_ = cell_count(groups);
            return groups;
        };
        if (table_.set(machine_, own, cut))
            make_room(table_.segment_count(), table_.part_count());
        if (table_.part_count() == 0)
            return false;
        machine_.template run<Prepare>(table_.segment_count(), arguments(nullptr, nullptr));
        return true;
    }

    void choose_group_tiles(Parts own) {
        if (group_tiles_ != 0 || own.empty())
            return;
        // Enough groups to occupy every multiprocessor, and no more blocks than that takes.
        constexpr Index wanted = problem::tunable<Index>("wanted_groups");
        group_tiles_ =
            std::clamp<Index>((own.back().end - own.front().begin) / tile / wanted, 1, most_group_tiles);
    }

    void watch(const std::vector<Group>& groups) {
        const WatchedTiles watched = watched_tiles_of(groups);
        first_tile_ = watched.first;
        table_.place(machine_, watched_, watched.tiles);
    }

    void make_room(Index segments, Index groups) {
        machine_.resize(searches_, segments);
        machine_.fill(searches_, 0); // no hints
        machine_.resize(bins_, segments * digit_bins);
        machine_.resize(above_, cells_);
        machine_.resize(inside_, cells_);
        machine_.resize(ties_, groups);
        machine_.resize(tie_offset_, groups + 1);
        machine_.resize(keys_, cells_ * cell_room);
        machine_.resize(places_, cells_ * cell_room);
    }

    SelectArguments arguments(const float* e, const float* payload) {
        return {table_.segments(),
                table_.parts(),
                searches_.data(),
                bins_.data(),
                e,
                masks_.current().view(),
                payload,
                keys_.data(),
                places_.data(),
                above_.data(),
                inside_.data(),
                ties_.data(),
                tie_offset_.data(),
                masks_.coming().words.data(),
                0,
                false};
    }

    Machine& machine_;
    Masks<Machine>& masks_;
    Index group_tiles_;
    std::vector<MaskCode::Part> foreseen_;
    bool begun_ = false; ///< a local pass has looked for what was foreseen
    SegmentTable<Machine> table_;
    Index first_tile_ = 0;
    Vector<WatchedTile> watched_;
    Index cells_ = 0;
    Vector<Search> searches_;
    Vector<std::uint32_t> bins_;
    Vector<std::uint32_t> above_;
    Vector<std::uint32_t> inside_;
    Vector<std::uint32_t> ties_;
    Vector<Index> tie_offset_;
    OffsetsOf<Machine> tie_sums_;
    Vector<std::uint32_t> keys_;
    Vector<std::uint16_t> places_;
};

} // namespace truestep::gpu::scape
