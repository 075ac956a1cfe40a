#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <scape/distributed/peers.hpp>
#include <scape/mapl/ends.hpp>

namespace scape::mapl {

/// What is put to the test: the two sides of a boundary, as Sender and Receiver are.
class AnySide {
  public:
    virtual ~AnySide() = default;
    [[nodiscard]] virtual Floats subspace() = 0;
    [[nodiscard]] virtual Floats anchor() = 0;
    [[nodiscard]] virtual Floats anchor_gradient() = 0;
    virtual void set_anchor(std::span<const float> table) = 0;
    [[nodiscard]] virtual EndState state() = 0;
};
class AnySender : public AnySide {
  public:
    virtual void forward(Index micro, std::span<const float> activations, std::span<const Id> ids) = 0;
    [[nodiscard]] virtual Floats backward(Index micro) = 0;
    virtual bool end_step(double rate) = 0;
    [[nodiscard]] virtual Floats subspace_gradient() = 0;
};
class AnyReceiver : public AnySide {
  public:
    [[nodiscard]] virtual Receiver::Arrived forward(Index micro, Index tokens) = 0;
    virtual void backward(Index micro, std::span<const float> gradient) = 0;
    virtual void end_step() = 0;
};

template <class Made>
using Starts =
    std::function<std::unique_ptr<Made>(const Settings&, EndState, distributed::Peers&, int peer)>;

struct Subjects {
    Starts<AnySender> sender;
    Starts<AnyReceiver> receiver;
    /// What of a state is there after a restart: by way of a file, say. Without it all of it is.
    std::function<EndState(const Settings&, const EndState&, Side, int boundary)> kept{};
};

/// distributed/mapl.
[[nodiscard]] Subjects host_ends();

} // namespace scape::mapl
