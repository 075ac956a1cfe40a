// One worker of GASLoC: what a user calls.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <truestep/distributed/gasloc/backend.hpp>
#include <truestep/distributed/gasloc/state.hpp>
#include <truestep/distributed/peers.hpp>

namespace truestep::distributed::gasloc {

/// A worker's model has turned non-finite: it stops, and its neighbours are informed.
class Halted : public std::runtime_error {
  public:
    explicit Halted(const std::string& text) : std::runtime_error(text) {}
};

struct Options {
    int threads = 1;
};

/// The result of one round.
struct Round {
    Index number = 0;
    Index inner_steps = 0; ///< H; 0 if it was skipped
    bool skipped = false;  ///< a gradient was not finite
    std::vector<Neighbour> met{};
    std::uint64_t sent = 0; ///< bytes, all of them of y
};

/// One worker of GASLoC (section 13). Between two rounds it takes any number of inner steps by
/// itself. A round sends its vector to its neighbours and waits for theirs only.
class Worker {
  public:
    /// All ranks call it with the same settings and parameters; it returns when it has seen those
    /// of all others. Throws truestep::Error, which names rank and setting, on all ranks if one
    /// differs, or if the settings are not stable (section 15).
    Worker(const Settings& settings, std::span<const float> parameters, distributed::Peers& peers,
           Options options = {});
    /// Continues from a state: all ranks with states of the same round.
    Worker(Settings settings, State state, distributed::Peers& peers, Options options = {});
    /// Uses another backend, with peers that can read its memory.
    Worker(Settings settings, State state, distributed::Peers& peers, std::unique_ptr<Backend> backend);

    /// Continues from another state with the same number of parameters: all ranks, with states of
    /// the same round. Its vectors keep their addresses. If it throws, it does on all ranks, and nothing
    /// has changed.
    void restore(State state);

    /// The point for the next gradient: x, or theta between rounds. It is in the host's memory, and
    /// valid until the next call.
    [[nodiscard]] std::span<const float> parameters() const;
    /// The same in the backend's memory, such as a device's, for code that computes the gradient
    /// there.
    [[nodiscard]] const float* parameters_in_place() const;

    /// One inner step, whose gradient the backend can read. False if it is not finite: then the
    /// round is skipped, theta and inner state are those of its begin, and its further steps do
    /// nothing.
    bool step(std::span<const float> gradient, double learning_rate);

    /// Drift, gossip, momentum. Throws distributed::Aborted, which names the neighbour that is late
    /// or has failed, and Halted: after either there is no further round.
    Round round();

    /// Lets messages make progress. Call it during long computations between two rounds.
    void progress() { peers_.progress(); }

    /// The state between two rounds; after Halted the one that is not finite. Throws Halted after a round
    /// that was interrupted.
    [[nodiscard]] State state() const;

  private:
    void must_be_able_to_go_on() const;
    [[nodiscard]] Index kept_steps() const;
    bool gossip(Round& round);

    Settings settings_;
    distributed::Peers& peers_;
    std::unique_ptr<Backend> backend_;
    std::size_t size_;
    Index rounds_ = 0;
    Index s_ = 0;     ///< when the round began
    Index steps_ = 0; ///< taken in this round
    bool skipped_ = false;
    bool in_a_round_ = false; ///< and after one that was interrupted
    std::string ended_;       ///< why there is no further round
};

} // namespace truestep::distributed::gasloc
