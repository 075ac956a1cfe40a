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
    Floats here{};                        ///< of one that computes in the host's memory;
    std::shared_ptr<const float> there{}; ///< of any other, in whose memory they stand until this is let go
};

[[nodiscard]] std::shared_ptr<const float> lent(Rows rows);

/// What is to be sent. It stands where the backend computes, and where its peers look for it.
struct Message {
    std::shared_ptr<const void> begin{}; ///< none where there is nothing that could be sent
    std::size_t bytes = 0;
};

/// Where in a message forward its parts begin: first Z or its indices, then these.
struct ForwardLayout {
    std::size_t ids;
    std::size_t codewords;
    std::size_t bytes; ///< of the whole
};
[[nodiscard]] ForwardLayout forward_layout(const Settings& settings, std::size_t tokens);

/// What a backend keeps of a micro-batch from its way forward to its way back.
struct Kept {
    explicit Kept(std::vector<Id> of) : ids(std::move(of)) {}
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    virtual ~Kept() = default;
    [[nodiscard]] std::size_t tokens() const { return ids.size(); }

    std::vector<Id> ids;
};

/// Where one side's values stand, and what it computes: no messages, no numbers of micro-batches and no
/// checks of what a caller gives, which are Sender's and Receiver's. Values that callers give may stand
/// where the backend computes or in the host's memory, and are the caller's again when a call returns.
class Backend {
  public:
    Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;
    virtual ~Backend() = default;

    /// Whether its messages stand in the host's memory, as those of most peers do.
    [[nodiscard]] virtual bool in_host_memory() const = 0;

    /// Once, before all else: the settings are sound, and the state is theirs.
    virtual void begin(const Settings& settings, Side side, EndState state) = 0;

    // The sender's.

    struct Compressed {
        Message message;
        std::unique_ptr<Kept> kept;
    };
    /// Z of X, or its indices, the ids, and of L the codewords `travelling`, which go into C. No message,
    /// and nothing has changed, where what would travel or be learned is not finite. `given` is X, or
    /// nothing: a caller's that is given away, and has been taken where there is a message.
    [[nodiscard]] virtual Compressed compress(std::span<const float> x, Floats& given,
                                              std::span<const Id> ids,
                                              std::span<const Word> travelling) = 0;
    /// dX of dZ as it has come; and the sender's part of the gradients is added.
    [[nodiscard]] virtual Rows decompress_gradient(Kept& kept, const std::byte* dz) = 0;
    /// The step's gradient of A becomes both sides' parts together; theirs is as part() has made it, with
    /// dE behind it where a table is shared, which is added.
    virtual void add_part(const std::byte* theirs) = 0;
    /// Of A, in the place of what stood there.
    virtual void set_gradient(const Floats& gradient) = 0;
    /// One step of SPEL. False, and nothing has changed, if anything it would make is not finite.
    [[nodiscard]] virtual bool follow(double rate) = 0;
    /// A, and dE where a table is shared.
    [[nodiscard]] virtual Message subspace() = 0;

    // The receiver's.

    /// What has come, of so many tokens, with the ids in it.
    [[nodiscard]] virtual std::unique_ptr<Kept> arrive(std::unique_ptr<distributed::Incoming> message,
                                                       const std::byte* begin, std::size_t tokens) = 0;
    /// Of indices that have come: the first that no codebook has.
    [[nodiscard]] virtual std::optional<Word> wrong_index(Kept& kept) = 0;
    /// Xhat, by the codebooks of before; then the codewords that came go into C.
    [[nodiscard]] virtual Rows decompress(Kept& kept, std::span<const Word> travelling) = 0;
    /// dZ of G. No message where it is not finite.
    [[nodiscard]] virtual Message compress_gradient(Kept& kept, std::span<const float> g) = 0;
    /// Of the same G, right behind it: the receiver's part of the gradients is added.
    virtual void add_receivers(Kept& kept, std::span<const float> g) = 0;
    /// The receiver's part of the gradient of A, and dE where a table is shared.
    [[nodiscard]] virtual Message part() = 0;
    /// What subspace() has made on the other side.
    virtual void take_subspace(const std::byte* message) = 0;

    // Both sides'.

    /// What has been summed is the last step's, and the sums are 0.
    virtual void end_step() = 0;

    enum class Held : std::uint8_t {
        a,
        m,
        anchor,
        rows,
        codebooks,
        learned,
        gradient,       ///< of A, of the last step: the sender's
        anchor_gradient ///< of the last step
    };
    /// In the host's memory, until the next call.
    [[nodiscard]] virtual const Floats& held(Held what) = 0;
    virtual void set_anchor(std::span<const float> table) = 0;
    [[nodiscard]] virtual Floats to_host(Rows rows, std::size_t size) = 0;
    /// Of what a caller has given.
    [[nodiscard]] virtual bool finite(std::span<const float> values) = 0;
};

/// The host's, by passes.hpp and codec.hpp.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend();

} // namespace truestep::distributed::mapl
