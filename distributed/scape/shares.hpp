#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include <truestep/distributed/mask.hpp>
#include <truestep/distributed/workers.hpp>

namespace truestep::distributed::scape {

/// How a rank's threads share its passes. Every way gives the same bits.
class Shares {
  public:
    explicit Shares(int threads) : workers_(threads) {}

    /// Calls work(begin, end) for shares of [0, count) that begin at multiples of `unit`.
    template <class Work>
    void share(Index count, Index unit, const Work& work) {
        workers_.run([&](int part) {
            const Index begin = cut(count, unit, part);
            const Index end = cut(count, unit, part + 1);
            if (begin < end)
                work(begin, end);
        });
    }
    /// Shares coordinates at multiples of a chunk; the other shares packed values.
    template <class Work>
    void over_coordinates(Index size, const Work& work) {
        share(size, Mask::chunk, work);
    }
    template <class Work>
    void over_packed(Index count, const Work& work) {
        share(count, Mask::word_bits, work);
    }

    /// The borders of the shares of coordinates, from 0 to the size; the other calls work(part) for
    /// each share.
    [[nodiscard]] std::vector<Index> cuts(Index size) const {
        std::vector<Index> result;
        for (Index part = 0; part <= workers_.threads(); ++part)
            result.push_back(cut(size, Mask::chunk, part));
        return result;
    }
    template <class Work>
    void each_part(const Work& work) {
        workers_.run([&](int part) { work(static_cast<std::size_t>(part)); });
    }

  private:
    [[nodiscard]] Index cut(Index count, Index unit, Index part) const {
        const Index units = (count + unit - 1) / unit;
        return std::min(count, units * part / workers_.threads() * unit);
    }

    Workers workers_;
};

/// The least or the greatest of what several threads have found. `Atomic` is a std::atomic, or a
/// test's.
template <class Atomic, class Value>
void lower(Atomic& least, Value found) {
    for (Value before = least; found < before && !least.compare_exchange_weak(before, found);) {
    }
}
template <class Atomic, class Value>
void raise(Atomic& greatest, Value found) {
    for (Value before = greatest; found > before && !greatest.compare_exchange_weak(before, found);) {
    }
}

} // namespace truestep::distributed::scape
