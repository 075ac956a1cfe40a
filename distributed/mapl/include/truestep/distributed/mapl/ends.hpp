// The two sides of a MAPL boundary: what a user calls.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/mapl/backend.hpp>
#include <truestep/distributed/mapl/state.hpp>
#include <truestep/distributed/peers.hpp>
#include <truestep/problem/mapl/settings.hpp>

namespace truestep::distributed::mapl {

/// The common part of both sides of a boundary (section 22). A call that throws truestep::Error has
/// sent and changed nothing: the caller may continue with better input. distributed::Aborted, which
/// names the other side, is final. The first End in a process sets the matrix library to one
/// thread, unless another number was requested (products.hpp).
///
/// The computing is a backend's: the host's by default, or one of truestep/gpu/mapl/devices.hpp,
/// with peers whose messages lie where it computes. With that one, activations and gradients may
/// lie in its memory, too, and the results of the functions `..._there` do.
class End {
  public:
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    [[nodiscard]] const Floats& subspace();
    /// E of this side, and its gradient of the last finished step; with `shared` anchors the sum
    /// over both sides, the same bits on both. Empty if anchors are not trained.
    [[nodiscard]] const Floats& anchor() { return backend_->held(Backend::StatePart::anchor); }
    [[nodiscard]] const Floats& anchor_gradient();
    /// Sets E as updated by the caller's optimizer. Between two steps.
    void set_anchor(std::span<const float> table);
    /// The state between two steps.
    [[nodiscard]] EndState state();

  protected:
    End(const Settings& settings, EndState state, Side side, distributed::Peers& peers, int peer,
        distributed::Communicator* replicas, std::unique_ptr<Backend> backend);
    /// After an error nothing under way is waited for: freeing its memory may wait for all work of a
    /// device.
    ~End() {
        if (std::uncaught_exceptions() > exceptions_)
            peers_.abandon();
    }

    [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(settings_.width); }
    [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(settings_.rank); }
    /// The bytes of Z or dZ for this many tokens.
    [[nodiscard]] std::size_t payload_bytes(std::size_t tokens) const {
        return tokens * rank() * value_bytes(settings_.payload);
    }
    [[nodiscard]] std::uint64_t number(Index micro) const;
    [[nodiscard]] bool trains_anchor() const {
        return settings_.anchors == Anchors::shared || settings_.anchors == Anchors::two;
    }
    /// The bytes of A, and of E where a table is shared, at a step's end.
    [[nodiscard]] std::size_t step_bytes() const;
    /// Ends a step: advances its numbers and resets the sums.
    void next_step();
    /// The codewords that travel with the next micro-batch.
    [[nodiscard]] std::vector<Word> next_codewords() const;
    void must_be_between_steps(std::size_t under_way, const char* what) const;
    /// Asks for a micro-batch's message, once.
    void ask(distributed::Traffic traffic, Index micro, std::size_t bytes);
    /// The message, whether it has been asked for or not.
    [[nodiscard]] std::unique_ptr<distributed::IncomingMessage> incoming(distributed::Traffic traffic,
                                                                         Index micro, std::size_t bytes);
    /// Takes the next A, if one is under way, which is so only on the receiver.
    virtual void wait_idle() {}

    Settings settings_;
    distributed::Peers& peers_;
    int peer_;
    Index steps_;         ///< finished so far
    Index micro_batches_; ///< passed through in all steps
    Index batches_ = 0;   ///< of the current step
    std::unique_ptr<Backend> backend_;
    std::map<Index, std::unique_ptr<BatchState>> under_way_;
    struct ExpectedMessage {
        std::size_t bytes;
        std::unique_ptr<distributed::IncomingMessage> message;
    };
    std::map<Index, ExpectedMessage> expected_;
    int exceptions_ = std::uncaught_exceptions();
};

/// The side that has activations and compresses them.
class Sender final : public End {
  public:
    /// Returns when it has seen the other side's settings. Throws truestep::Error, the same on both
    /// sides, if they differ or A is off the manifold.
    ///
    /// In a pipeline with several copies, `replicas` are the ranks that have this side of this
    /// boundary, each with its own receiver. They must begin alike, end their steps together, at
    /// the same rate, and have the same A after each: it follows the mean of their gradients
    /// (section 22.1). It has to outlive this object.
    Sender(const Settings& settings, EndState state, distributed::Peers& peers, int peer,
           distributed::Communicator* replicas = nullptr, std::unique_ptr<Backend> backend = nullptr);

    /// Sends micro-batch `micro` = 0, 1, ... of this step, each once, in any order common to both
    /// sides: X is N x D, with an id for each row. Returns when it is on its way.
    void forward(Index micro, std::span<const float> activations, std::span<const Id> ids);
    /// The same for activations that the caller gives away, refused or not: the host's backend
    /// copies nothing.
    void forward(Index micro, Floats&& activations, std::span<const Id> ids);
    /// Lets the gradient of a sent micro-batch arrive while this side computes; backward takes it.
    /// Call it in the order in which the other side sends.
    void expect(Index micro);
    /// dX of a sent micro-batch, N x D.
    [[nodiscard]] Floats backward(Index micro);
    /// The same in the backend's memory, until it is released.
    [[nodiscard]] std::shared_ptr<const float> backward_there(Index micro);
    /// Completes the step's gradient of A, and takes a step of SPEL; the new A is on its way to the
    /// other side on return. False if the gradient was not finite: A and m are unchanged on both
    /// sides. Where replicas have other rates it throws on all, and nothing has changed.
    bool end_step(double rate);

    /// The gradient of A of the last step, with both sides' parts: the mean where there are
    /// replicas.
    [[nodiscard]] const Floats& subspace_gradient() { return backend_->held(Backend::StatePart::gradient); }
    /// This replica's own gradient.
    [[nodiscard]] const Floats& own_subspace_gradient() {
        return replicas_ == nullptr ? subspace_gradient() : own_gradient_;
    }

  private:
    void check_forward(Index micro, std::size_t activations, std::span<const Id> ids) const;
    void send(Index micro, std::span<const float> activations, Floats given, std::span<const Id> ids);
    [[nodiscard]] Rows taken_back(Index micro);
    void follow_mean();

    distributed::Communicator* replicas_;
    Floats own_gradient_; ///< if there are replicas
};

/// The side that receives the activations.
class Receiver final : public End {
  public:
    Receiver(const Settings& settings, EndState state, distributed::Peers& peers, int peer,
             std::unique_ptr<Backend> backend = nullptr);

    /// Lets a micro-batch of this step arrive while this side computes; forward takes it, with the
    /// same number of tokens. Call it in the order in which the other side sends.
    void expect(Index micro, Index tokens);
    struct ReceivedActivations {
        Floats activations; ///< Xhat, N x D
        std::vector<Id> ids;
    };
    [[nodiscard]] ReceivedActivations forward(Index micro, Index tokens);
    struct ReceivedActivationsThere {
        std::shared_ptr<const float> activations; ///< in the backend's memory, until it is released
        std::vector<Id> ids;
    };
    [[nodiscard]] ReceivedActivationsThere forward_there(Index micro, Index tokens);
    /// Sends back dZ for G = dL/dXhat of a received micro-batch.
    void backward(Index micro, std::span<const float> gradient);
    /// Sends this side's part of the gradient; the new A is waited for when it is needed.
    void end_step();

  private:
    void wait_idle() override;
    struct ReceivedMessage {
        Rows rows;
        std::vector<Id> ids;
    };
    /// The bytes of a micro-batch's message.
    [[nodiscard]] std::size_t bytes_of(Index micro, Index tokens) const;
    [[nodiscard]] ReceivedMessage arrived(Index micro, Index tokens);
    /// Checks the ids and indices that the other side sent.
    void check_arrived(BatchState& kept);

    std::unique_ptr<distributed::IncomingMessage> awaited_; ///< the next A
};

} // namespace truestep::distributed::mapl
