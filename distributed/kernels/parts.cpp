// The additional operations of a step in parts and of a bf16 payload: they touch a few values of
// each stretch of memory, so plain code suffices.
#include <algorithm>
#include <bit>

#include <truestep/distributed/kernels.hpp>

namespace truestep::distributed::host {

namespace {

/// The bits of the word that begins at coordinate `first` which lie in [begin, end).
std::uint64_t bits_within(Index first, Index begin, Index end) {
    const auto from = static_cast<unsigned>(std::max(begin, first) - first);
    const auto to = static_cast<unsigned>(std::min(end, first + Mask::word_bits) - first);
    const std::uint64_t below = to == Mask::word_bits ? ~std::uint64_t{0} : (std::uint64_t{1} << to) - 1;
    return below & (~std::uint64_t{0} << from);
}

/// Calls work(i) for the mask's coordinates in [begin, end).
template <class Work>
void each_selected(Index begin, Index end, const Mask& mask, const Work& work) {
    for (Index first = begin / Mask::word_bits * Mask::word_bits; first < end; first += Mask::word_bits) {
        const auto word = static_cast<std::size_t>(first / Mask::word_bits);
        for (std::uint64_t bits = mask.words()[word] & bits_within(first, begin, end); bits != 0;
             bits &= bits - 1)
            work(first + std::countr_zero(bits));
    }
}

} // namespace

void add(Index begin, Index end, const float* g, float* sum) {
    for (Index i = begin; i < end; ++i)
        sum[i] = sum[i] + g[i];
}

void gather(const Scalars& scalars, Index begin, Index end, const float* sum, const float* g,
            const float* e, const Mask& last, const float* m, const Mask& current, float* payload) {
    const float* moments = m + last.offset(begin);
    for (Index first = begin / Mask::word_bits * Mask::word_bits; first < end; first += Mask::word_bits) {
        const auto word = static_cast<std::size_t>(first / Mask::word_bits);
        const std::uint64_t within = bits_within(first, begin, end);
        const std::uint64_t before = last.words()[word] & within;
        for (std::uint64_t bits = current.words()[word] & within; bits != 0; bits &= bits - 1) {
            const Index i = first + std::countr_zero(bits);
            const std::uint64_t bit = bits & (~bits + 1);
            const float moment = (before & bit) != 0 ? moments[std::popcount(before & (bit - 1))] : 0.0F;
            const float gradient = sum == nullptr ? g[i] : sum[i] + g[i];
            *payload++ = element::local(scalars, moment, gradient, e[i]);
        }
        moments += std::popcount(before);
    }
}

void spread(Index begin, Index end, const float* packed, const Mask& mask, float* to) {
    each_selected(begin, end, mask, [&](Index i) { to[i] = *packed++; });
}

void add_to(Index begin, Index end, const float* packed, const Mask& mask, float* to) {
    each_selected(begin, end, mask, [&](Index i) { to[i] = to[i] + *packed++; });
}

} // namespace truestep::distributed::host
