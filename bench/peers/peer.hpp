// The interface of a peer: one rank of an optimizer that the benchmarks compare with SCAPE.
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

/// The state from which one rank of a peer continues: vectors and integers, named by its kind.
struct State {
    std::map<std::string, std::vector<float>> vectors;
    std::map<std::string, std::vector<std::uint64_t>> words;

    void fields(auto& visit) { visit(vectors, words); }

    friend bool operator==(const State&, const State&) = default;
};

/// The named values of a state. Throws truestep::Error if their number differs.
[[nodiscard]] const std::vector<float>& values_in(const State& state, const std::string& name,
                                                  std::size_t size);
[[nodiscard]] const std::vector<std::uint64_t>& words_in(const State& state, const std::string& name,
                                                         std::size_t size);
/// A single integer of a state.
[[nodiscard]] Index count_in(const State& state, const std::string& name);

/// One rank of an optimizer that a user might run instead of SCAPE. All ranks call the same
/// functions in the same order.
class Peer {
  public:
    virtual ~Peer() = default;

    /// Takes a step with this rank's gradient.
    virtual void step(std::span<const float> gradient, double learning_rate) = 0;
    /// The same for kinds that consume the gradient: afterwards `gradient` has other memory of the
    /// same size, with meaningless values. Other kinds only read it.
    virtual void step_using_up(distributed::AlignedFloats& gradient, double learning_rate) {
        step(gradient, learning_rate);
    }
    /// Waits for exchanges that the last step has started.
    virtual void finish() {}
    /// The parameters at which the next gradient is computed.
    [[nodiscard]] virtual std::span<const float> parameters() const = 0;

    /// The state on which the next steps depend, between two rounds. All ranks call it.
    [[nodiscard]] virtual State state() = 0;
    /// Continues from a state. All ranks call it, each with its own state, of the same kind and
    /// setting. Throws truestep::Error if it is of another kind or size.
    virtual void restore(const State& state) = 0;

    /// The peer as a LocalPeer, if its ranks train by themselves between two exchanges.
    [[nodiscard]] virtual LocalPeer* local() { return nullptr; }
};

/// A peer in which every H-th step ends a round with an exchange, and other steps send nothing.
class LocalPeer : public Peer {
  public:
    explicit LocalPeer(Index inner_steps) : inner_steps_(inner_steps) {}

    void step(std::span<const float> gradient, double learning_rate) final {
        inner_step(gradient, learning_rate);
        if (++taken_ % inner_steps_ == 0)
            end_round();
    }
    [[nodiscard]] LocalPeer* local() final { return this; }

    /// The parts of step(). Code that times them calls only these, with any number of steps in a
    /// round.
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
    /// The steps over which scape's density falls geometrically from 1.
    Index density_warm_up = 0;
    std::vector<problem::Tensor> tensors{}; ///< of scape, d parameters in all; none: they are one tensor
    int threads = 1;                        ///< that share a rank's passes, of those that have them
};

/// The meaning of the number in a peer's name: "scape:0.1", "diloco:30".
enum class Number : std::uint8_t { none, density, inner_steps };

/// A kind of peer, and its known properties.
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
/// The steps of a round: H for local peers, else 1.
[[nodiscard]] Index inner_steps(const Kind& kind, const Setting& setting);

/// A peer as a user writes it, NAME or NAME:NUMBER.
struct Choice {
    const Kind* kind = nullptr;
    Setting setting;
};
/// Throws truestep::Error, one line, for a number that the kind lacks or does not allow.
[[nodiscard]] Choice parse(std::string_view text, Index size);

/// How a rank reaches the others: all together, and each by itself.
struct Links {
    Communicator& all;
    distributed::Peers& each;
};

/// The links have to outlive the peer.
[[nodiscard]] std::unique_ptr<Peer> make_peer(std::string_view name, const Setting& setting,
                                              const Links& links, std::span<const float> parameters);

/// Bytes that a rank sends in a later round, from d, P and the kind's number alone: formulas that
/// are independent of the code that sends. If the size varies, it is what would be sent if every
/// selection took exactly k, without exchanges of sizes. For gasloc, the mean over ranks and
/// rounds, since the number of meetings varies.
[[nodiscard]] double formula_bytes(std::string_view name, const Setting& setting, int ranks, int rank);
/// The same for all ranks together: an integer, except for the law exponential, whose rounds
/// differ.
[[nodiscard]] double formula_bytes(std::string_view name, const Setting& setting, int ranks);

} // namespace truestep::peers
