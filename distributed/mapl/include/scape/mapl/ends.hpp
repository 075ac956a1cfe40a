#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <scape/distributed/communicator.hpp>
#include <scape/distributed/peers.hpp>
#include <scape/mapl/passes.hpp>
#include <scape/mapl/settings.hpp>

namespace scape::mapl {

class Codec;

/// What a checkpoint holds of one side of a boundary, between two steps. Anybody may set it.
struct EndState {
    Index steps = 0;         ///< that have ended
    Index micro_batches = 0; ///< that have gone through in all of them
    Floats a{};              ///< A, D x r, the same bits on both sides
    Floats m{};              ///< D x r on the sender, nothing on the receiver
    Floats anchor{};         ///< this side's E, V x r, or nothing without anchors
    Floats rows{}; ///< this side's P, r x D; where there are anchors and none is given, from the seed
    /// What the receiver decodes with and the sender encodes with, Gr R K r / Gr; from the seed where none
    /// is given. Nothing without quantization.
    Floats codebooks{};
    Floats learned{}; ///< the sender's own copy, which goes ahead; like `codebooks` where none is given
};

/// Where both sides begin: from the same settings the same bits. E, if there are anchors, is the caller's.
[[nodiscard]] EndState first_state(const Settings& settings, Side side, std::span<const float> subspace,
                                   std::span<const float> anchor);

/// What both sides of a boundary have in common (section 22). Every call that throws scape::Error has sent
/// nothing and changed nothing: the caller may go on with better input. distributed::Aborted, which names
/// the other side, is the end. The first in a process asks the library of products for one thread, unless
/// it has been asked otherwise (products.hpp).
class End {
  public:
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    [[nodiscard]] const Floats& subspace();
    /// E of this side, and its gradient of the last step that has ended; with `shared` anchors the sum over
    /// both sides, the same bits on both. Nothing where anchors are not trained.
    [[nodiscard]] const Floats& anchor() const { return state_.anchor; }
    [[nodiscard]] const Floats& anchor_gradient();
    /// Between two steps: what the caller's optimizer has made of it.
    void set_anchor(std::span<const float> table);
    /// Between two steps.
    [[nodiscard]] EndState state();

  protected:
    End(const Settings& settings, EndState state, Side side, distributed::Peers& peers, int peer);
    ~End();

    [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(settings_.width); }
    [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(settings_.rank); }
    /// Of Z or dZ of so many tokens.
    [[nodiscard]] std::size_t payload_bytes(std::size_t tokens) const {
        return tokens * rank() * value_bytes(settings_.payload);
    }
    [[nodiscard]] std::uint64_t number(Index micro) const;
    [[nodiscard]] bool trains_anchor() const {
        return settings_.anchors == Anchors::shared || settings_.anchors == Anchors::two;
    }
    [[nodiscard]] SideMatrices matrices() const;
    /// Where the step's gradient of this side's E is summed, or nullptr.
    [[nodiscard]] float* anchor_sum() { return trains_anchor() ? anchor_sum_.data() : nullptr; }
    /// A step has ended: the next one's numbers, and nothing summed.
    void next_step(Index micro_batches);
    /// Of codewords: how many micro-batches have gone so far.
    [[nodiscard]] Index travelled() const { return state_.micro_batches + batches_; }
    void must_be_between_steps(std::size_t under_way, const char* what) const;
    /// Once all that was on its way has come; the receiver's A is.
    virtual void settle() {}

    Settings settings_;
    EndState state_;
    distributed::Peers& peers_;
    int peer_;
    Floats part_;            ///< of the gradient of A that this side has
    Floats anchor_sum_;      ///< of the step that goes on
    Floats anchor_gradient_; ///< of the last one
    Index batches_ = 0;      ///< of the step that goes on
    std::unique_ptr<Codec> codec_;
};

/// The side that has activations and compresses them.
class Sender final : public End {
  public:
    /// Returns when it has seen the other side's settings. Throws scape::Error, on both sides the same,
    /// where they differ, and where A is off the manifold.
    ///
    /// Where a pipeline stands several times beside itself, `replicas` are the ranks that have this side of
    /// this boundary, each with a receiver of its own. They have to begin alike, end their steps together,
    /// at the same rate, and have the same A after each: it follows the mean of their gradients (section
    /// 22.1). It has to outlive this.
    Sender(const Settings& settings, EndState state, distributed::Peers& peers, int peer,
           distributed::Communicator* replicas = nullptr);

    /// Micro-batch `micro` = 0, 1, ... of this step, each once, in any order that both sides keep: X is N x
    /// D, an id for each of its rows. Returns when it is on its way.
    void forward(Index micro, std::span<const float> activations, std::span<const Id> ids);
    /// The same of activations that the caller gives away, refused or not: nothing is copied.
    void forward(Index micro, Floats&& activations, std::span<const Id> ids);
    /// dX of one that went forward, N x D.
    [[nodiscard]] Floats backward(Index micro);
    /// The step's gradient of A, and A after a step of SPEL; it is on its way to the other side when this
    /// returns. False if the gradient was not finite: A and m are what they were, on both sides.
    bool end_step(double rate);

    /// Of the last step, both parts together: what A has followed, the mean where there are replicas.
    [[nodiscard]] const Floats& subspace_gradient() const { return gradient_; }
    /// And this replica's own.
    [[nodiscard]] const Floats& own_subspace_gradient() const {
        return replicas_ == nullptr ? gradient_ : own_gradient_;
    }

  private:
    struct UnderWay {
        Floats q; ///< N x D: what was compressed
        std::vector<Id> ids;
        bool has_our_room; ///< else what the caller gave away
    };
    void check_forward(Index micro, std::size_t activations, std::span<const Id> ids) const;
    void send(Index micro, std::span<const float> activations, UnderWay made);
    /// Z, made of `activations`, as it travels, and room for the ids behind it; then the codewords.
    struct Message {
        std::shared_ptr<const void> owner;
        std::byte* ids;
        std::size_t bytes;
    };
    [[nodiscard]] Message values(Index micro, std::span<const float> activations, UnderWay& made);
    [[nodiscard]] Message indices(Index micro, std::span<const float> activations, UnderWay& made);
    /// For N x D values, in memory that an earlier micro-batch had, if there is any: fresh pages cost more
    /// than what is written to them.
    [[nodiscard]] Floats room(std::size_t size);

    std::map<Index, UnderWay> under_way_;
    std::vector<Floats> spare_;
    distributed::Communicator* replicas_;
    Floats gradient_;
    Floats own_gradient_; ///< where there are replicas
};

/// The side that gets them.
class Receiver final : public End {
  public:
    Receiver(const Settings& settings, EndState state, distributed::Peers& peers, int peer);

    struct Arrived {
        Floats activations; ///< Xhat, N x D
        std::vector<Id> ids;
    };
    [[nodiscard]] Arrived forward(Index micro, Index tokens);
    /// G = dL/dXhat of one that came.
    void backward(Index micro, std::span<const float> gradient);
    /// This side's part of the gradient goes; the new A is waited for when it is needed.
    void end_step();

  private:
    struct UnderWay {
        std::unique_ptr<distributed::Incoming> message; ///< it holds Z,
        Floats widened;                                 ///< or this does
        const float* z;
        std::vector<Id> ids;
    };
    void settle() override;
    /// Z of so many bytes of a message, with the codebooks of before it; then the codewords behind the ids.
    [[nodiscard]] Floats decoded(const std::byte* message, std::size_t tokens, std::size_t id_bytes);

    std::map<Index, UnderWay> under_way_;
    std::unique_ptr<distributed::Incoming> awaited_; ///< the next A
};

} // namespace scape::mapl
