// The interface of a backend of MAPL, and the data that it exchanges with both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <truestep/distributed/mapl/state.hpp>
#include <truestep/distributed/peers.hpp>
#include <truestep/problem/mapl/quantization.hpp>

namespace truestep::distributed::mapl {

/// N x D values that a backend has made.
struct Rows {
    Floats here{};                        ///< in the host's memory, if the backend computes there;
    std::shared_ptr<const float> there{}; ///< otherwise in the backend's memory, until this is released
};

[[nodiscard]] std::shared_ptr<const float> lent(Rows rows);

/// A message to be sent. It lies where the backend computes, and where its peers read it.
struct Message {
    std::shared_ptr<const void> begin{}; ///< null if the values cannot be sent
    std::size_t bytes = 0;
};

/// The offsets of the parts in a forward message: first Z or its indices, then these.
struct ForwardLayout {
    std::size_t ids;
    std::size_t codewords;
    std::size_t bytes; ///< of the whole message
};
[[nodiscard]] ForwardLayout forward_layout(const Settings& settings, std::size_t tokens);

/// The data that a backend keeps of a micro-batch from its forward to its backward pass.
struct BatchState {
    explicit BatchState(std::vector<Id> of) : ids(std::move(of)) {}
    BatchState(const BatchState&) = delete;
    BatchState& operator=(const BatchState&) = delete;
    virtual ~BatchState() = default;
    [[nodiscard]] std::size_t tokens() const { return ids.size(); }

    std::vector<Id> ids;
};

/// Holds one side's values and computes with them. Messages, numbers of micro-batches and checks of
/// the caller's input belong to Sender and Receiver. The caller's values may lie where the backend
/// computes or in the host's memory, and belong to the caller again when a call returns.
class Backend {
  public:
    Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;
    virtual ~Backend() = default;

    /// Whether its messages lie in the host's memory, like those of most peers.
    [[nodiscard]] virtual bool in_host_memory() const = 0;

    /// Called once, before everything else, with checked settings and a state that fits them.
    virtual void begin(const Settings& settings, Side side, EndState state) = 0;

    // For the sender:

    struct CompressedBatch {
        Message message;
        std::unique_ptr<BatchState> kept;
    };
    /// Z of X, or its indices, then the ids, and the codewords `travelling` of L, which also go
    /// into C. No message, and no change, if anything to be sent or learned is not finite. `given`
    /// is X or empty: the caller gives it away, and it has been taken if there is a message.
    [[nodiscard]] virtual CompressedBatch compress(std::span<const float> x, Floats& given,
                                                   std::span<const Id> ids,
                                                   std::span<const Word> travelling) = 0;
    /// dX of the received dZ; also adds the sender's part of the gradients.
    [[nodiscard]] virtual Rows decompress_gradient(BatchState& kept, const std::byte* dz) = 0;
    /// Completes the step's gradient of A with the other side's part, as part() makes it; with a
    /// shared table dE follows, which is added.
    virtual void add_part(const std::byte* theirs) = 0;
    /// Replaces the gradient of A.
    virtual void set_gradient(const Floats& gradient) = 0;
    /// One step of SPEL. False, without a change, if any result would not be finite.
    [[nodiscard]] virtual bool follow(double rate) = 0;
    /// A message with A, and dE where a table is shared.
    [[nodiscard]] virtual Message subspace() = 0;

    // For the receiver:

    /// Takes a received message of this many tokens, with the ids in it.
    [[nodiscard]] virtual std::unique_ptr<BatchState>
    arrive(std::unique_ptr<distributed::IncomingMessage> message, const std::byte* begin,
           std::size_t tokens) = 0;
    /// The first of the received indices that no codebook has.
    [[nodiscard]] virtual std::optional<Word> wrong_index(BatchState& kept) = 0;
    /// Xhat, by the old codebooks; then the received codewords go into C.
    [[nodiscard]] virtual Rows decompress(BatchState& kept, std::span<const Word> travelling) = 0;
    /// dZ of G. No message if it is not finite.
    [[nodiscard]] virtual Message compress_gradient(BatchState& kept, std::span<const float> g) = 0;
    /// Adds the receiver's part of the gradients; called right afterwards, with the same G.
    virtual void add_receivers(BatchState& kept, std::span<const float> g) = 0;
    /// A message with the receiver's part of the gradient of A, and dE where a table is shared.
    [[nodiscard]] virtual Message part() = 0;
    /// Takes the message that subspace() has made on the other side.
    virtual void take_subspace(const std::byte* message) = 0;

    // For both sides:

    /// Ends a step: the sums become the last step's, and restart at 0.
    virtual void end_step() = 0;

    enum class StatePart : std::uint8_t {
        a,
        m,
        anchor,
        rows,
        codebooks,
        learned,
        gradient,       ///< of A, of the last step; on the sender
        anchor_gradient ///< of the last step
    };
    /// The values in the host's memory, valid until the next call.
    [[nodiscard]] virtual const Floats& held(StatePart what) = 0;
    virtual void set_anchor(std::span<const float> table) = 0;
    [[nodiscard]] virtual Floats to_host(Rows rows, std::size_t size) = 0;
    /// Whether the caller's values are finite.
    [[nodiscard]] virtual bool finite(std::span<const float> values) = 0;
};

/// The host's backend, made of passes.hpp and codec.hpp.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend();

} // namespace truestep::distributed::mapl
