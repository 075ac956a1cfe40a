#pragma once

#include <algorithm>
#include <cstddef>

#include <truestep/problem/layout.hpp>

namespace truestep::distributed::scape {

/// Of what is about as much at each step: a little more, so that the next one most often finds enough.
[[nodiscard]] constexpr problem::Index room_to_vary(problem::Index count) {
    return count + count / 8 + 64;
}

/// Memory for values that are written before they are read, which a step finds as the one before left it.
/// What was there may be lost.
template <class Vector>
class Room {
  public:
    /// For so many values at least.
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

    /// A falling density leaves no large room behind.
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
    std::size_t most_ = 0; ///< that was asked for in this step
};

} // namespace truestep::distributed::scape
