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

/// What both sides of a boundary have in common (section 22). Every call that throws truestep::Error has
/// sent nothing and changed nothing: the caller may go on with better input. distributed::Aborted, which
/// names the other side, is the end. The first in a process asks the library of products for one thread,
/// unless it has been asked otherwise (products.hpp).
///
/// What is computed is a backend's: the host's where none is given, or one of
/// truestep/gpu/mapl/devices.hpp, with peers whose messages stand where it computes. With that one,
/// activations and gradients may stand in its memory, too, and what the functions `..._there` give does.
class End {
  public:
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    [[nodiscard]] const Floats& subspace();
    /// E of this side, and its gradient of the last step that has ended; with `shared` anchors the sum over
    /// both sides, the same bits on both. Nothing where anchors are not trained.
    [[nodiscard]] const Floats& anchor() { return backend_->held(Backend::Held::anchor); }
    [[nodiscard]] const Floats& anchor_gradient();
    /// Between two steps: what the caller's optimizer has made of it.
    void set_anchor(std::span<const float> table);
    /// Between two steps.
    [[nodiscard]] EndState state();

  protected:
    End(const Settings& settings, EndState state, Side side, distributed::Peers& peers, int peer,
        distributed::Communicator* replicas, std::unique_ptr<Backend> backend);
    /// One that ends by an error keeps nothing waiting: what goes with it may wait for all that a device
    /// does.
    ~End() {
        if (std::uncaught_exceptions() > exceptions_)
            peers_.abandon();
    }

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
    /// Values of A, and with them of E where a table is shared, as they travel at a step's end.
    [[nodiscard]] std::size_t step_bytes() const;
    /// A step has ended: the next one's numbers, and nothing summed.
    void next_step();
    /// The codewords that go with the next micro-batch.
    [[nodiscard]] std::vector<Word> next_codewords() const;
    void must_be_between_steps(std::size_t under_way, const char* what) const;
    /// A micro-batch's message is asked for; once.
    void ask(distributed::Traffic traffic, Index micro, std::size_t bytes);
    /// It, whether it has been asked for or not.
    [[nodiscard]] std::unique_ptr<distributed::Incoming> incoming(distributed::Traffic traffic, Index micro,
                                                                  std::size_t bytes);
    /// Once all that was on its way has come; the receiver's A is.
    virtual void settle() {}

    Settings settings_;
    distributed::Peers& peers_;
    int peer_;
    Index steps_;         ///< that have ended
    Index micro_batches_; ///< that have gone through in all of them
    Index batches_ = 0;   ///< of the step that goes on
    std::unique_ptr<Backend> backend_;
    std::map<Index, std::unique_ptr<Kept>> under_way_;
    struct Expected {
        std::size_t bytes;
        std::unique_ptr<distributed::Incoming> message;
    };
    std::map<Index, Expected> expected_;
    int exceptions_ = std::uncaught_exceptions();
};

/// The side that has activations and compresses them.
class Sender final : public End {
  public:
    /// Returns when it has seen the other side's settings. Throws truestep::Error, on both sides the same,
    /// where they differ, and where A is off the manifold.
    ///
    /// Where a pipeline stands several times beside itself, `replicas` are the ranks that have this side of
    /// this boundary, each with a receiver of its own. They have to begin alike, end their steps together,
    /// at the same rate, and have the same A after each: it follows the mean of their gradients (section
    /// 22.1). It has to outlive this.
    Sender(const Settings& settings, EndState state, distributed::Peers& peers, int peer,
           distributed::Communicator* replicas = nullptr, std::unique_ptr<Backend> backend = nullptr);

    /// Micro-batch `micro` = 0, 1, ... of this step, each once, in any order that both sides keep: X is N x
    /// D, an id for each of its rows. Returns when it is on its way.
    void forward(Index micro, std::span<const float> activations, std::span<const Id> ids);
    /// The same of activations that the caller gives away, refused or not: the host's backend
    /// copies nothing.
    void forward(Index micro, Floats&& activations, std::span<const Id> ids);
    /// The gradient of one that went forward is let come while this side computes; backward takes it. In
    /// the order in which the other side sends them.
    void expect(Index micro);
    /// dX of one that went forward, N x D.
    [[nodiscard]] Floats backward(Index micro);
    /// The same where the backend computes, until it is let go.
    [[nodiscard]] std::shared_ptr<const float> backward_there(Index micro);
    /// The step's gradient of A, and A after a step of SPEL; it is on its way to the other side when this
    /// returns. False if the gradient was not finite: A and m are what they were, on both sides.
    bool end_step(double rate);

    /// Of the last step, both parts together: what A has followed, the mean where there are replicas.
    [[nodiscard]] const Floats& subspace_gradient() { return backend_->held(Backend::Held::gradient); }
    /// And this replica's own.
    [[nodiscard]] const Floats& own_subspace_gradient() {
        return replicas_ == nullptr ? subspace_gradient() : own_gradient_;
    }

  private:
    void check_forward(Index micro, std::size_t activations, std::span<const Id> ids) const;
    void send(Index micro, std::span<const float> activations, Floats given, std::span<const Id> ids);
    [[nodiscard]] Rows taken_back(Index micro);
    void follow_mean();

    distributed::Communicator* replicas_;
    Floats own_gradient_; ///< where there are replicas
};

/// The side that gets them.
class Receiver final : public End {
  public:
    Receiver(const Settings& settings, EndState state, distributed::Peers& peers, int peer,
             std::unique_ptr<Backend> backend = nullptr);

    /// A micro-batch of this step is let come while this side computes; forward takes it, of as many
    /// tokens. In the order in which the other side sends them.
    void expect(Index micro, Index tokens);
    struct Arrived {
        Floats activations; ///< Xhat, N x D
        std::vector<Id> ids;
    };
    [[nodiscard]] Arrived forward(Index micro, Index tokens);
    struct ArrivedThere {
        std::shared_ptr<const float> activations; ///< where the backend computes, until it is let go
        std::vector<Id> ids;
    };
    [[nodiscard]] ArrivedThere forward_there(Index micro, Index tokens);
    /// G = dL/dXhat of one that came.
    void backward(Index micro, std::span<const float> gradient);
    /// This side's part of the gradient goes; the new A is waited for when it is needed.
    void end_step();

  private:
    void settle() override;
    struct Came {
        Rows rows;
        std::vector<Id> ids;
    };
    /// Of a micro-batch that may come.
    [[nodiscard]] std::size_t bytes_of(Index micro, Index tokens) const;
    [[nodiscard]] Came arrived(Index micro, Index tokens);
    /// That the other side may have sent: ids and indices.
    void check_arrived(Kept& kept);

    std::unique_ptr<distributed::Incoming> awaited_; ///< the next A
};

} // namespace truestep::distributed::mapl
