#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <truestep/distributed/mask.hpp>
#include <truestep/gpu/block.hpp>

namespace truestep::gpu::scape {

/// Calls work(range, first) for the ranges of a bucket; `first` is the place of a range's first
/// value in the bucket. Returns how many values the bucket has.
template <class Work>
Index each_of_bucket(const distributed::Mask& mask, std::span<const problem::Range> where,
                     const Work& work) {
    Index first = 0;
    for (const problem::Range& range : where) {
        work(range, first);
        first += mask.offset(range.end) - mask.offset(range.begin);
    }
    return first;
}

/// The places of a step's bucket values, outside the state, from the first bucket to the step
/// itself.
template <class Machine>
class BucketPlaces {
  public:
    template <class T>
    using Vector = typename Machine::template Vector<T>;

    struct Place {
        Vector<float> values;      ///< c on the coming mask, then the means
        Vector<std::uint8_t> sent; ///< as they travel, where that is rounded
    };

    /// The machine has to outlive this.
    explicit BucketPlaces(Machine& machine) : machine_(machine) {
        for (auto& room : received_)
            machine_.exchange(room);
    }

    [[nodiscard]] Place& operator[](std::size_t bucket) {
        while (places_.size() <= bucket) {
            places_.push_back(std::make_unique<Place>());
            machine_.exchange(places_.back()->values);
            machine_.exchange(places_.back()->sent);
        }
        return *places_[bucket];
    }

    /// Room for `count` received floats. The next bucket's is filled before one's is folded.
    [[nodiscard]] Vector<float>& receive(Index count) {
        auto& room = received_[handed_out_++ % received_.size()];
        machine_.resize(room, count);
        return room;
    }
    /// The received values, in the order in which receive() handed their places out.
    [[nodiscard]] const float* to_fold() { return received_[folded_++ % received_.size()].data(); }

    void begin() { under_way_ = true; }
    [[nodiscard]] bool under_way() const { return under_way_; }
    /// Drops received values that have not been folded.
    void forget() {
        under_way_ = false;
        handed_out_ = folded_ = 0;
    }

  private:
    Machine& machine_;
    std::vector<std::unique_ptr<Place>> places_;
    std::array<Vector<float>, 2> received_;
    std::size_t handed_out_ = 0;
    std::size_t folded_ = 0;
    bool under_way_ = false;
};

} // namespace truestep::gpu::scape
