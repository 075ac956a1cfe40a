#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "peers/peer.hpp"
#include <truestep/distributed/mask.hpp>

namespace truestep::peers {

/// A coordinate of a sparse gradient as it travels: 8 bytes.
struct Entry {
    std::uint32_t index;
    float value;
};

/// Calls use(index) for each bit of the mask in [begin, end), ascending; both at whole words, or the end.
template <class Use>
void for_each_bit(const distributed::Mask& mask, Index begin, Index end, const Use& use) {
    for (Index word = begin / 64; word * 64 < end; ++word)
        for (std::uint64_t bits = mask.words()[word]; bits != 0; bits &= bits - 1)
            use(word * 64 + std::countr_zero(bits));
}

/// A sparse sum over ranks, to which entries are added as they arrive.
class SparseSum {
  public:
    explicit SparseSum(Index size) : sums_(static_cast<std::size_t>(size), 0.0F), touched_(size) {}

    void add(std::span<const Entry> entries) {
        for (const Entry& entry : entries) {
            sums_[entry.index] += entry.value;
            touched_.set(entry.index);
        }
    }
    /// Calls use(index, sum) for each sum, ascending, and clears them.
    template <class Use>
    void take(const Use& use) {
        for_each_bit(touched_, 0, touched_.size(), [&](Index index) {
            float& sum = sums_[static_cast<std::size_t>(index)];
            use(index, sum);
            sum = 0.0F;
        });
        touched_.clear();
    }

  private:
    std::vector<float> sums_;
    distributed::Mask touched_;
};

/// AdamS (section 3) on a sparse mean gradient, as usual in optimizers for sparse gradients:
/// moments and directions only for received coordinates, decay for all. Every rank holds the whole
/// state.
class LazyAdamS {
  public:
    LazyAdamS(problem::HyperParameters hyper, std::span<const float> parameters);

    /// Entries are sums over ranks, ascending.
    void update(std::span<const Entry> sums, int ranks, double learning_rate);
    [[nodiscard]] std::span<const float> parameters() const { return w_; }

    [[nodiscard]] State state() const;
    void restore(const State& state);

  private:
    problem::HyperParameters hyper_;
    std::vector<float> w_;
    std::vector<float> m_; ///< in full length
    distributed::Mask touched_;
    std::vector<float> g_; ///< these three packed on `touched_`
    std::vector<float> last_m_;
    std::vector<float> M_;
    Index steps_ = 0;
};

} // namespace truestep::peers
