#pragma once

#include <cstdint>
#include <span>

#include "algorithms/code.hpp"
#include "masks.hpp"
#include "segments.hpp"

namespace truestep::gpu::scape {

/// The launches that turn a gathered code into the coming mask, and the tables that they read.
template <class Machine>
class Decoding {
  public:
    /// The machine and the masks have to outlive this.
    Decoding(Machine& machine, Masks<Machine>& masks) : machine_(machine), masks_(masks) {}

    /// Sets `corrupt` where the code does not fit these segments.
    void run(std::span<const MaskCode::Part> all, Index size, const std::uint8_t* code,
             std::uint32_t* corrupt) {
        if (table_.set(machine_, all, [&] { return code_tiles_of(all); })) {
            const Pieces pieces = pieces_of(all, size);
            table_.place(machine_, pieces_, pieces.pieces);
            table_.place(machine_, first_piece_, pieces.first);
        }
        const Index parts = table_.part_count();
        machine_.resize(counts_, parts);
        machine_.resize(offsets_, parts + 1);
        auto& mask = masks_.coming();
        machine_.template run<DecodeCount>(
            (parts + DecodeCount::tiles - 1) / DecodeCount::tiles,
            {table_.segments(), table_.parts(), parts, code, counts_.data()});
        sums_.run(machine_, counts_.data(), parts, offsets_.data());
        machine_.template run<Decode>((size + decode_chunk - 1) / decode_chunk,
                                      {table_.segments(), pieces_.data(), first_piece_.data(), code,
                                       offsets_.data(), masks_.words(), mask.view(), masks_.tile_counts(),
                                       corrupt});
        masks_.sum_up(mask);
        mask.selected = 0;
        for (const MaskCode::Part& part : all)
            mask.selected += part.k;
        mask.mirrored = false;
    }

  private:
    template <class T>
    using Vector = typename Machine::template Vector<T>;

    Machine& machine_;
    Masks<Machine>& masks_;
    SegmentTable<Machine> table_;
    Vector<Group> pieces_;
    Vector<Index> first_piece_;
    Vector<std::uint32_t> counts_;
    Vector<Index> offsets_;
    OffsetsOf<Machine> sums_;
};

} // namespace truestep::gpu::scape
