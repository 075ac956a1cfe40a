#pragma once

#include <truestep/problem/layout.hpp>

namespace truestep::gpu::scape {

/// What a backend of devices tells of its guesses at the thresholds that the next mask has: they change no
/// bit, and are half of what a selection costs.
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

    /// Of the last selection. Waits for it.
    [[nodiscard]] virtual Account account() = 0;
};

} // namespace truestep::gpu::scape
