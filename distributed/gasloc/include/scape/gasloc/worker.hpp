#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <scape/distributed/local.hpp>
#include <scape/distributed/peers.hpp>
#include <scape/distributed/workers.hpp>
#include <scape/gasloc/settings.hpp>

namespace scape::gasloc {

/// A worker's model has turned non-finite: it takes no further part, and its neighbours are told.
class Halted : public std::runtime_error {
  public:
    explicit Halted(const std::string& text) : std::runtime_error(text) {}
};

/// All that a checkpoint holds of one worker (section 16), besides settings.
struct State {
    Index rounds = 0; ///< that have been made
    Index s = 0;      ///< inner steps of its life
    std::vector<float> theta;
    std::vector<float> before;
    std::vector<float> m; ///< of adams and adamw
    std::vector<float> v; ///< of adamw

    friend bool operator==(const State&, const State&) = default;
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
    /// others. Throws scape::Error, which names rank and setting, on all ranks where one has others, or
    /// where they are not stable (section 15).
    Worker(const Settings& settings, std::span<const float> parameters, distributed::Peers& peers,
           Options options = {});
    /// Goes on from a state: all ranks with states of the same round.
    Worker(Settings settings, State state, distributed::Peers& peers, Options options = {});

    /// What the next gradient is to be taken at: x, and theta between rounds.
    [[nodiscard]] std::span<const float> parameters() const;

    /// One inner step. False if the gradient is not finite: then this round is a skipped one, theta and
    /// inner state are what they were when it began, and further steps of it do nothing.
    bool step(std::span<const float> gradient, double learning_rate);

    /// Drift, gossip, momentum. Throws distributed::Aborted, which names the neighbour that did not come or
    /// has failed, and Halted: after either there is no further round.
    Round round();

    /// Lets messages move on. Whoever computes for long between two rounds may call it.
    void progress() { peers_.progress(); }

    /// Between two rounds.
    [[nodiscard]] State state() const;

  private:
    using Floats = std::vector<float>;

    /// A vector that neighbours may be reading. It is theirs as well for as long as they have not let go
    /// of it, so whoever is a round ahead takes another one instead of waiting.
    struct Shared {
        explicit Shared(std::size_t size) : values(size) {}
        Floats values;
        std::atomic<int> readers{0};
    };
    using SharedVector = std::shared_ptr<Shared>;

    void must_be_able_to_go_on() const;
    [[nodiscard]] std::size_t size() const { return theta_.size(); }
    [[nodiscard]] SharedVector unused();
    [[nodiscard]] static std::shared_ptr<const void> lent(const SharedVector& vector);
    [[nodiscard]] Index kept_steps() const;
    void make_y();
    void gossip(Round& round);
    template <class Pass>
    bool everywhere(Index begin, Index end, const Pass& pass);

    Settings settings_;
    distributed::Peers& peers_;
    distributed::Workers workers_;
    Index rounds_ = 0;
    Index s_ = 0; ///< when the round began

    Floats theta_;
    Floats before_z_;     ///< placement gossiped
    SharedVector before_; ///< placement local: the last y
    SharedVector x_;      ///< of this round; y when it ends
    std::vector<SharedVector> pool_;
    /// Inner state as it was when the round began, and as it is in it: a skipped round has changed nothing.
    Floats m_, m_now_, v_, v_now_;
    Index steps_ = 0; ///< taken in this round
    bool skipped_ = false;
    std::string ended_; ///< why there is no further round
};

} // namespace scape::gasloc
