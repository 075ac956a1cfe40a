// Which rank owns which coordinates of a dense model, and how they are packed by owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <truestep/problem/dense/settings.hpp>

namespace truestep::distributed::dense {

using namespace problem::dense;
using problem::Index;
using problem::Layout;
using problem::dense::Problem; // not that of another system
using problem::dense::Tensor;

/// Coordinates of one tensor that have one owner, in the flat vector of all parameters.
struct Piece {
    std::size_t tensor = 0;
    Index begin = 0;
    Index end = 0;

    [[nodiscard]] Index size() const { return end - begin; }
    friend bool operator==(const Piece&, const Piece&) = default;
};

/// The owners of all coordinates. Elementwise rules are shared out by ranges, which may end within a
/// tensor; a matrix of Muon is never cut. If nothing is sharded, every rank owns everything.
class Ownership {
  public:
    explicit Ownership(const Problem& problem, bool sharded = true);

    /// The pieces of a rank, ascending. The packed vector of a rank has them one after the other.
    [[nodiscard]] const std::vector<Piece>& pieces(int rank) const {
        return pieces_[static_cast<std::size_t>(rank)];
    }
    [[nodiscard]] Index size(int rank) const { return sizes_[static_cast<std::size_t>(rank)]; }
    /// Whether the packed vectors of the ranks, one after the other, are the flat vector itself.
    [[nodiscard]] bool in_order() const { return in_order_; }
    [[nodiscard]] bool sharded() const { return sharded_; }

    /// Copies between a flat vector and a rank's packed one.
    template <class Value>
    void pack(int rank, const Value* flat, Value* packed) const {
        for (const Piece& piece : pieces(rank))
            packed = std::copy(flat + piece.begin, flat + piece.end, packed);
    }
    template <class Value, class Flat>
    void unpack(int rank, const Value* packed, Flat* flat) const {
        for (const Piece& piece : pieces(rank)) {
            std::copy(packed, packed + piece.size(), flat + piece.begin);
            packed += piece.size();
        }
    }

  private:
    std::vector<std::vector<Piece>> pieces_;
    std::vector<Index> sizes_;
    bool in_order_ = true;
    bool sharded_ = true;
};

} // namespace truestep::distributed::dense
