#pragma once

#include <algorithm>
#include <cstddef>

#include <truestep/problem/layout.hpp>

namespace truestep::distributed::scape {

/// Over-allocates by 12.5 % + 64, so that the next step, which needs about as much, rarely
/// reallocates.
[[nodiscard]] constexpr problem::Index room_to_vary(problem::Index count) {
    return count + count / 8 + 64;
}

/// Memory for values that are written before they are read, reused by the next step. Growing may
/// lose its contents.
template <class Vector>
class ReusableBuffer {
  public:
    /// Makes room for at least `count` values.
    typename Vector::value_type* make(problem::Index count) {
        const auto wanted = static_cast<std::size_t>(count);
        most_ = std::max(most_, wanted);
        if (values_.size() < wanted)
            take(wanted);
        return values_.data();
    }
    [[nodiscard]] typename Vector::value_type* data() { return values_.data(); }
    [[nodiscard]] const typename Vector::value_type* data() const { return values_.data(); }

    [[nodiscard]] std::size_t size() const { return values_.size(); }

    /// Frees a large room after the density has fallen.
    void end_step() {
        if (values_.size() / 2 > most_)
            take(most_);
        most_ = 0;
    }

  private:
    void take(std::size_t wanted) {
        values_ = Vector(); // {} would keep the memory
        values_.resize(wanted);
    }

    Vector values_;
    std::size_t most_ = 0; ///< the greatest request in this step
};

} // namespace truestep::distributed::scape
