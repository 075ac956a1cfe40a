#pragma once

#include <truestep/problem/layout.hpp>

namespace truestep::gpu::scape {

/// How well a device's backend guesses the thresholds of the next mask. Guesses change no bit, but
/// decide half of the cost of a selection.
class Guesses {
  public:
    struct Account {
        problem::Index looked_for = 0; ///< segments in which there was a threshold to be found,
        problem::Index held = 0;       ///< and those in which the bracket around the guess had it

        Account& operator+=(const Account& other) {
            looked_for += other.looked_for;
            held += other.held;
            return *this;
        }
    };

    Guesses() = default;
    Guesses(const Guesses&) = delete;
    Guesses& operator=(const Guesses&) = delete;
    virtual ~Guesses() = default;

    /// The account of the last selection; waits for it.
    [[nodiscard]] virtual Account account() = 0;
};

} // namespace truestep::gpu::scape
