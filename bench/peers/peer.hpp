#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/distributed/aligned.hpp>
#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/peers.hpp>
#include <truestep/problem/gasloc/graph.hpp>
#include <truestep/problem/problem.hpp>

namespace truestep::peers {

using distributed::Bytes;
using distributed::Communicator;
using distributed::Traffic;
using problem::Index;

class LocalPeer;

/// What one rank of a peer goes on from: vectors and whole numbers, by the names that its kind has for
/// them.
struct State {
    std::map<std::string, std::vector<float>> vectors;
    std::map<std::string, std::vector<std::uint64_t>> words;

    void fields(auto& visit) { visit(vectors, words); }

    friend bool operator==(const State&, const State&) = default;
};

/// These of it. Throws truestep::Error if there are not so many.
[[nodiscard]] const std::vector<float>& values_in(const State& state, const std::string& name,
                                                  std::size_t size);
[[nodiscard]] const std::vector<std::uint64_t>& words_in(const State& state, const std::string& name,
                                                         std::size_t size);
/// One whole number.
[[nodiscard]] Index count_in(const State& state, const std::string& name);

/// One rank of an optimizer that a user might run in place of SCAPE. All ranks call the same functions in
/// the same order.
class Peer {
  public:
    virtual ~Peer() = default;

    /// Takes a step with this rank's gradient.
    virtual void step(std::span<const float> gradient, double learning_rate) = 0;
    /// The same of a kind that uses gradients up: afterwards it has other memory, as large, whose values
    /// mean nothing. The others only read it.
    virtual void step_using_up(distributed::AlignedFloats& gradient, double learning_rate) {
        step(gradient, learning_rate);
    }
    /// Waits for what the last step has left on its way.
    virtual void finish() {}
    /// What the next gradient is to be taken at.
    [[nodiscard]] virtual std::span<const float> parameters() const = 0;

    /// What the next steps depend on, between two rounds. All ranks ask.
    [[nodiscard]] virtual State state() = 0;
    /// Goes on from there: on all ranks, each with what its own had, of the same kind with the same
    /// setting. Throws truestep::Error if it is of another kind or size.
    virtual void restore(const State& state) = 0;

    /// Of those whose ranks train by themselves between two exchanges: the peer as such a one.
    [[nodiscard]] virtual LocalPeer* local() { return nullptr; }
};

/// A peer of which every H-th step ends a round with an exchange, and no other sends anything.
class LocalPeer : public Peer {
  public:
    explicit LocalPeer(Index inner_steps) : inner_steps_(inner_steps) {}

    void step(std::span<const float> gradient, double learning_rate) final {
        inner_step(gradient, learning_rate);
        if (++taken_ % inner_steps_ == 0)
            end_round();
    }
    [[nodiscard]] LocalPeer* local() final { return this; }

    /// What step() is made of. Whoever times them apart calls these alone, with as many steps in a round
    /// as it likes.
    virtual void inner_step(std::span<const float> gradient, double learning_rate) = 0;
    virtual void end_round() = 0;

  private:
    Index inner_steps_;
    Index taken_ = 0;
};

struct Setting {
    Index size = 0;        ///< d
    double density = 0.01; ///< of the sparse ones
    problem::HyperParameters hyper{};
    Index inner_steps = 30;                                 ///< H, of the local ones
    problem::gasloc::Law law = problem::gasloc::Law::pairs; ///< of gasloc
    /// Of scape: falls from 1 to the density, geometrically, over so many steps.
    Index density_warm_up = 0;
    std::vector<problem::Tensor> tensors{}; ///< of scape, d parameters in all; none: they are one tensor
    int threads = 1;                        ///< that share a rank's passes, of those that have them
};

/// What the number behind a peer's name means: "scape:0.1", "diloco:30".
enum class Number : std::uint8_t { none, density, inner_steps };

/// A kind of peer, and what is known of it beforehand.
struct Kind {
    std::string_view name;
    Number number;
    bool fixed_size;        ///< the formula is exact; else what is sent depends on the data
    bool replicas;          ///< after a round, parameters are the same bits on all ranks
    std::string_view words; ///< what it is, for tables
    bool threads = false;   ///< several can share a rank's passes
    bool uses_up = false;   ///< gradients, in step_using_up()
};

[[nodiscard]] std::span<const Kind> kinds();
/// Throws truestep::Error that lists the names.
[[nodiscard]] const Kind& kind_of(std::string_view name);
/// The steps of a round: H of the local ones, else 1.
[[nodiscard]] Index inner_steps(const Kind& kind, const Setting& setting);

/// A peer as a user writes it, NAME or NAME:NUMBER.
struct Choice {
    const Kind* kind = nullptr;
    Setting setting;
};
/// Throws truestep::Error, one line, for a number that the kind does not have or does not allow.
[[nodiscard]] Choice parse(std::string_view text, Index size);

/// How a rank reaches the others: all at once, and each by itself.
struct Links {
    Communicator& all;
    distributed::Peers& each;
};

/// The links have to outlive the peer.
[[nodiscard]] std::unique_ptr<Peer> make_peer(std::string_view name, const Setting& setting,
                                              const Links& links, std::span<const float> parameters);

/// What a rank sends to others in a round that is not the first, from d, P and the kind's number alone: the
/// kinds' own formulas, written down apart from the code that sends. Where the size is not fixed, what is
/// sent if every selection takes exactly k, without exchanges of sizes. Of gasloc the mean over ranks and
/// rounds: who meets fewer than others changes from round to round.
[[nodiscard]] double formula_bytes(std::string_view name, const Setting& setting, int ranks, int rank);
/// The same of all ranks together: a whole number, but of the law exponential, whose rounds differ.
[[nodiscard]] double formula_bytes(std::string_view name, const Setting& setting, int ranks);

} // namespace truestep::peers
