#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <scape/distributed/communicator.hpp>
#include <scape/problem/problem.hpp>

namespace scape::peers {

using distributed::Bytes;
using distributed::Communicator;
using distributed::Traffic;
using problem::Index;

/// One rank of an optimizer that a user might run in place of SCAPE. All ranks call the same functions in
/// the same order; parameters are the same bits on all ranks.
class Peer {
  public:
    virtual ~Peer() = default;

    /// Takes a step with this rank's gradient.
    virtual void step(std::span<const float> gradient, double learning_rate) = 0;
    /// Waits for what the last step has left on its way.
    virtual void finish() {}
    [[nodiscard]] virtual std::span<const float> parameters() const = 0;
};

struct Setting {
    Index size = 0;        ///< d
    double density = 0.01; ///< of the sparse ones
    problem::HyperParameters hyper;
};

/// A kind of peer, and what is known of it beforehand.
struct Kind {
    std::string_view name;
    bool sparse;            ///< the density matters
    bool fixed_size;        ///< the formula is exact; else what is sent depends on the data
    std::string_view words; ///< what it is, for tables
};

[[nodiscard]] std::span<const Kind> kinds();
/// Throws scape::Error that lists the names.
[[nodiscard]] const Kind& kind_of(std::string_view name);

/// The communicator has to outlive the peer.
[[nodiscard]] std::unique_ptr<Peer> make_peer(std::string_view name, const Setting& setting,
                                              Communicator& communicator,
                                              std::span<const float> parameters);

/// What a rank sends to others in a step that is not the first, from d, P and density alone: the kinds' own
/// formulas, written down apart from the code that sends. Where the size is not fixed, what is sent if
/// every selection takes exactly k, without exchanges of sizes.
[[nodiscard]] double formula_bytes(std::string_view name, const Setting& setting, int ranks, int rank);

} // namespace scape::peers
