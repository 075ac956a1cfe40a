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

/// A worker's model has turned non-finite: it takes no further part, and its neighbours are told.
class Halted : public std::runtime_error {
  public:
    explicit Halted(const std::string& text) : std::runtime_error(text) {}
};

struct Options {
    int threads = 1;
};

/// What came of one round.
struct Round {
    Index number = 0;
    Index inner_steps = 0; ///< H; 0 if it was skipped
    bool skipped = false;  ///< a gradient was not finite
    std::vector<Neighbour> met{};
    std::uint64_t sent = 0; ///< bytes, all of them y
};

/// One worker of GASLoC (section 13). Between two rounds it takes as many inner steps as it likes, by
/// itself; a round sends its vector to its neighbours and waits for theirs, and for nobody else.
class Worker {
  public:
    /// All ranks call it with the same settings and parameters; it returns when it has seen those of all
    /// others. Throws truestep::Error, which names rank and setting, on all ranks where one has others, or
    /// where they are not stable (section 15).
    Worker(const Settings& settings, std::span<const float> parameters, distributed::Peers& peers,
           Options options = {});
    /// Goes on from a state: all ranks with states of the same round.
    Worker(Settings settings, State state, distributed::Peers& peers, Options options = {});
    /// Whose vectors stand elsewhere: with peers that can read them there.
    Worker(Settings settings, State state, distributed::Peers& peers, std::unique_ptr<Backend> backend);

    /// Goes on from another state of as many parameters, as if made from it: all ranks, with states of the
    /// same round. Its vectors stay where they are in memory. Where it throws, nothing has changed.
    void restore(State state);

    /// What the next gradient is to be taken at: x, and theta between rounds. In the host's memory, and
    /// valid until the next call.
    [[nodiscard]] std::span<const float> parameters() const;
    /// The same where the backend has them, a device's memory, say, for whoever takes the gradient there.
    [[nodiscard]] const float* parameters_in_place() const;

    /// One inner step, whose gradient stands where the backend can read it. False if that is not finite:
    /// then this round is a skipped one, theta and inner state are what they were when it began, and
    /// further steps of it do nothing.
    bool step(std::span<const float> gradient, double learning_rate);

    /// Drift, gossip, momentum. Throws distributed::Aborted, which names the neighbour that did not come or
    /// has failed, and Halted: after either there is no further round.
    Round round();

    /// Lets messages move on. Whoever computes for long between two rounds may call it.
    void progress() { peers_.progress(); }

    /// Between two rounds.
    [[nodiscard]] State state() const;

  private:
    void must_be_able_to_go_on() const;
    [[nodiscard]] Index kept_steps() const;
    void gossip(Round& round);

    Settings settings_;
    distributed::Peers& peers_;
    std::unique_ptr<Backend> backend_;
    std::size_t size_;
    Index rounds_ = 0;
    Index s_ = 0;     ///< when the round began
    Index steps_ = 0; ///< taken in this round
    bool skipped_ = false;
    std::string ended_; ///< why there is no further round
};

} // namespace truestep::distributed::gasloc
